// quern's vocabulary for programs that embed it: what a request is and what comes back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace quern {

struct SamplingParams {
  double temperature = 1.0;             // 0 is greedy
  std::int64_t top_k = 0;               // 0, -1 and anything ≥ the vocabulary: off
  double top_p = 1.0;                   // (0, 1]; 1 is off
  double min_p = 0.0;                   // [0, 1]; 0 is off
  std::optional<std::uint64_t> seed{};  // equal seeds give equal texts; unset: a fresh one
  std::int64_t max_tokens = -1;         // new tokens; -1: as many as the context holds
  std::vector<std::string> stop{};      // the text ends before the earliest match of any of these
  std::vector<std::int32_t> stop_token_ids{};
  bool ignore_eos = false;
};

struct ChatMessage {
  std::string role;  // system, user, assistant, tool
  std::string content;
  // Further members (tool_calls, name, content as a list of parts …) as the text of a JSON object,
  // or "". A content in it counts before the other.
  std::string fields{};
};

// What the chat template gets beside the messages; "" where there is none.
struct ChatOptions {
  bool add_generation_prompt = true;
  bool continue_final_message = false;  // the prompt ends inside the last message
  std::string tools{}, documents{};     // JSON arrays
  std::string template_kwargs{};        // a JSON object of further variables
};

// One piece of a prompt. Control tokens such as <|im_end|> are recognised in `trusted` text only
// (what a template wrote); elsewhere they are ordinary text.
struct PromptPiece {
  std::string text;
  bool trusted = false;
};

// Exactly one of prompt, token_ids, messages is set.
struct Request {
  std::optional<std::string> prompt;                   // a text
  std::optional<std::vector<std::int32_t>> token_ids;  // used as they are
  std::optional<std::vector<ChatMessage>> messages;    // rendered by the model's chat template
  ChatOptions chat;                                    // with messages
  bool add_special_tokens = true;     // what the tokenizer puts around a prompt (its BOS, its EOS)
  bool parse_special_tokens = false;  // control tokens written in a text are recognised as such
  // Keys and values of a prompt's beginning are shared by requests of one space only: a tenant, a
  // salt. "" is a space too.
  std::string cache_space;
  std::int64_t priority = 0;  // higher first where the engine schedules by priority
  SamplingParams sampling;
};

using RequestId = std::uint64_t;

enum class FinishReason {
  kNone,       // more events follow
  kStop,       // end-of-sequence token, stop string or stop token
  kLength,     // max_tokens, the context or the cache is full
  kCancelled,  // cancel() or shutdown
  kError,      // see `error_*`
};

// What became of a request in one step. Several tokens may come in one event.
struct TokenEvent {
  std::vector<std::int32_t> token_ids;  // new tokens, the ended-by one included
  std::string text;  // new text: whole characters, valid UTF-8, stop text removed
  FinishReason finish_reason = FinishReason::kNone;
  std::string matched_stop;  // the stop string that ended it, else ""
  // With kError: the catalogue's entry and the message for the client.
  std::string error_id;
  std::string error_message;
  int error_http_status = 0;
  // Of the whole request so far.
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;  // of the prompt, that were not computed for this request
};

}  // namespace quern
