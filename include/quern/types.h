// quern's vocabulary for programs that embed it: what a request is and what comes back.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace quern {

// The form that an answer has to have.
struct Grammar {
  enum class Kind {
    kJsonObject,     // any JSON object
    kJsonSchema,     // JSON that a schema allows
    kRegex,          // a whole match of a regular expression
    kEbnf,           // what the rule root of a grammar writes
    kStructuralTag,  // text with places that have a form of their own
  };
  Kind kind = Kind::kJsonObject;
  std::string text{};  // the schema, pattern, grammar or tag; of kJsonObject none
  bool operator==(const Grammar&) const = default;
};

struct SamplingParams {
  double temperature = 1.0;               // 0 is greedy
  std::int64_t top_k = 0;                 // 0, -1 and anything ≥ the vocabulary: off
  double top_p = 1.0;                     // (0, 1]; 1 is off
  double min_p = 0.0;                     // [0, 1]; 0 is off
  std::optional<std::uint64_t> seed{};    // equal seeds give equal texts; unset: a fresh one
  std::int64_t max_tokens = -1;           // new tokens; -1: as many as the context holds
  std::vector<std::string> stop{};        // the text ends before the earliest match of any of these
  std::vector<std::string> stop_regex{};  // … or of these, as PCRE2 reads them
  std::vector<std::int32_t> stop_token_ids{};
  bool ignore_eos = false;
  std::int64_t max_thinking_tokens = -1;  // then reasoning is closed; -1: no limit
  std::int64_t min_tokens = 0;  // before these no end-of-sequence token and no stop token is drawn
  // Subtracted from the logits of tokens that were drawn before: once, and for each time.
  double presence_penalty = 0.0, frequency_penalty = 0.0;
  double repetition_penalty = 1.0;  // divides logits above 0 of tokens seen, prompt included
  std::vector<std::pair<std::int32_t, float>> logit_bias{};  // added, after the penalties
  std::optional<Grammar> grammar{};           // of the answer, behind its reasoning
  bool no_stop_trim = false;                  // what ended the text stays in it
  bool skip_special_tokens = true;            // control tokens write nothing
  bool spaces_between_special_tokens = true;  // else adjacent ones write no blanks of their own
};

// What a request wants to be told of probabilities.
struct LogprobOptions {
  bool output = false;                    // of every new token
  std::int64_t prompt_from = -1;          // of the prompt's tokens from this one on; -1: none
  std::int64_t top = 0;                   // the likeliest tokens at each of these positions
  std::vector<std::int32_t> token_ids{};  // and these tokens
  bool any() const { return output || prompt_from >= 0; }
};

inline constexpr float kLeastLogprob = -9999.0f;  // stands for −∞

struct LogprobToken {
  std::int32_t id = 0;
  float logprob = 0;    // natural, of the model's own distribution; kLeastLogprob … 0
  std::string bytes;    // what the token writes; not always valid UTF-8
  bool written = true;  // false: a control token, which stands in no text
};

// One position.
struct TokenLogprobs {
  LogprobToken token;                  // the one that stands there
  bool predicted = true;               // false: the first position, `token.logprob` means nothing
  std::vector<LogprobToken> top{};     // most likely first
  std::vector<LogprobToken> wanted{};  // of LogprobOptions::token_ids, in their order
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
  // Calls are held to a grammar: one has to come (`call_required`), of the tool with this name, or any;
  // and those of tools that say `strict` follow their schemas.
  bool call_required = false;
  std::string call_name{};
  bool parallel_calls = true;
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
  LogprobOptions logprobs;
};

using RequestId = std::uint64_t;

enum class FinishReason {
  kNone,       // more events follow
  kStop,       // end-of-sequence token, stop string or stop token
  kLength,     // max_tokens, the context or the cache is full
  kCancelled,  // cancel() or shutdown
  kError,      // see `error_*`
};

// Whether a prompt leaves the answer within reasoning: its template may have opened or closed it.
enum class ReasoningStart { kUnstated, kOpen, kClosed };

// What became of a request in one step. Several tokens may come in one event.
struct TokenEvent {
  std::vector<std::int32_t> token_ids;  // new tokens, the ended-by one included
  std::string text;  // new text: whole characters, valid UTF-8, stop text removed
  FinishReason finish_reason = FinishReason::kNone;
  std::string matched_stop;  // the stop string or regex that ended it, else ""
  // With kError: the catalogue's entry and the message for the client.
  std::string error_id;
  std::string error_message;
  int error_http_status = 0;
  ReasoningStart reasoning_start = ReasoningStart::kUnstated;  // of a chat's prompt
  // Of the whole request so far.
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;         // of the prompt, that were not computed for this request
  std::vector<TokenLogprobs> logprobs{};  // of token_ids, where they were asked for
  std::vector<TokenLogprobs> prompt_logprobs{};  // with the first event
};

}  // namespace quern
