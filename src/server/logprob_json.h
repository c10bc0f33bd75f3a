// Log-probabilities in the words of the three APIs: what requests ask for, and how answers tell it.
// Used by native_api and openai_api.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "quern/engine.h"
#include "server/json_body.h"

namespace quern::server {

inline constexpr std::int64_t kMaxTopLogprobs = 20;        // of OpenAI's API
inline constexpr std::int64_t kMaxNativeTopLogprobs = 64;  // of /generate
inline constexpr size_t kMaxLogprobIds = 64;               // of token_ids_logprob

// return_logprob, logprob_start_len, top_logprobs_num and token_ids_logprob of /generate.
// Throws: kWrongFieldType, kFieldOutOfRange.
LogprobOptions read_native_logprobs(const Fields& fields, const EngineInfo& info);
// logprobs (a boolean) and top_logprobs of a chat. Throws: the same.
LogprobOptions read_chat_logprobs(const Fields& fields);
// logprobs (a number) of a completion; with `echo` of the prompt's tokens too. Throws: the same.
LogprobOptions read_completion_logprobs(const Fields& fields, bool echo);

// input_token_logprobs, output_token_logprobs and the lists beside them of /generate's meta_info:
// [logprob, id, text or null] a token.
class NativeLogprobs {
 public:
  NativeLogprobs(LogprobOptions options, bool with_text)
      : options_(std::move(options)), with_text_(with_text) {}
  void add(const TokenEvent& event);
  // Writes what came so far into `meta`.
  void put(JsonOut* meta) const;

 private:
  void add(const std::vector<TokenLogprobs>& tokens, const char* side);

  LogprobOptions options_;
  bool with_text_;
  JsonOut lists_ = JsonOut::object();
};

// The content array of a chat's logprobs.
JsonOut chat_logprobs(std::span<const TokenLogprobs> tokens, const LogprobOptions& options);

// The logprobs of a completion. `offset`: characters of the text before these tokens; advances.
JsonOut completion_logprobs(std::span<const TokenLogprobs> tokens, const LogprobOptions& options,
                            std::int64_t* offset);

// The tokens of an event whose text counts as the answer's: without the one that ended it.
std::vector<TokenLogprobs> answered_logprobs(const TokenEvent& event);

}  // namespace quern::server
