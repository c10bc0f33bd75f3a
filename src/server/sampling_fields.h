// The sampling fields that the OpenAI and the native API share, and the list of fields that exist
// in those APIs but are not served: asking for one of them is an error, never silence.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quern/engine.h"
#include "server/json_body.h"

namespace quern::server {

inline constexpr size_t kMaxStopStrings = 16;
inline constexpr size_t kMaxStopStringBytes = 4096;
inline constexpr size_t kMaxStopRegexBytes = 1024;
inline constexpr size_t kMaxStopTokens = 1024;

// Reads temperature, top_p, top_k and min_p, which the model has defaults for, and stop,
// stop_regex, stop_token_ids, ignore_eos, no_stop_trim, skip_special_tokens and
// spaces_between_special_tokens. A temperature below 1e-6 and a top_p of 0 are greedy. Throws:
// kWrongFieldType, kFieldOutOfRange.
SamplingParams read_sampling(const Fields& fields, const SamplingParams& defaults);

// add_special_tokens: absent, the tokenizer's own tokens are put around a prompt; true, control
// tokens written in its texts are recognised too; false, neither. Throws: kWrongFieldType.
void read_special_tokens(const Fields& fields, Request* request);

// Reads what changes logits: presence_penalty, frequency_penalty, repetition_penalty, logit_bias
// and the least number of new tokens, which the APIs name differently. Requires: max_tokens is set.
// Throws: kWrongFieldType, kFieldOutOfRange.
void read_edits(const Fields& fields, std::string_view min_tokens, const EngineInfo& info,
                SamplingParams* sampling);

inline constexpr size_t kMaxCacheKeyBytes = 4096;

// Reads priority, and cache_salt and extra_key: requests share cached prefixes where both are
// equal. Throws: kWrongFieldType, kFieldOutOfRange.
void read_scheduling(const Fields& fields, Request* request);

// A value that asks for nothing and is therefore let through.
enum class Harmless { kNothing, kFalse, kZero, kOne, kEmpty, kNoneWord, kPlainText, kMinusOne };

struct UnservedField {
  std::string_view name;
  Harmless harmless;
  std::string_view instead;  // what this version takes
};

// Throws: kFieldNotServed for the first of `unserved` that asks for something.
void refuse_unserved(const Fields& fields, std::span<const UnservedField> unserved);

}  // namespace quern::server
