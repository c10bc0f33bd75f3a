// What the formats of tool calls and of reasoning mean for the tokens of an answer: which control
// tokens its text must show, whether the prompt has opened reasoning, and when reasoning has used
// up what a request allows it. Used by the step loop; parsing is the caller's
// (quern/output_parsers.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "quern/engine.h"
#include "quern/output_parsers.h"
#include "text/tokenizer.h"

namespace quern::engine {

// Of one model. Immutable; any thread. The tokenizer must outlive it.
class AnswerFormats {
 public:
  // Takes tool_call_parser and reasoning_parser of `info`.
  AnswerFormats(const EngineInfo& info, const text::Tokenizer& tokenizer);

  // The control tokens that are parts of marks, ordered; those of calls where the model may make
  // some.
  std::span<const std::int32_t> shown(bool with_tools) const {
    return with_tools ? all_marks_ : reasoning_marks_;
  }
  ReasoningStart start(std::span<const std::int32_t> prompt) const;
  // The tokens that close reasoning; none where the format has no such mark.
  const std::vector<std::int32_t>& closing() const { return closing_; }
  // The token that opens reasoning, or −1 where the format has none of its own for it.
  std::int32_t opening() const { return opening_; }
  const std::string& reasoning() const { return reasoning_; }

 private:
  const text::Tokenizer& tokenizer_;
  std::string reasoning_;
  std::vector<std::int32_t> reasoning_marks_, all_marks_, closing_;
  std::int32_t opening_ = -1;
};

// Ends the reasoning of one request after so many tokens of it, by tokens that need no sampling.
class ThinkingBudget {
 public:
  // Requires: the formats outlive it and have closing tokens.
  ThinkingBudget(const AnswerFormats& formats, ReasoningStart start, std::int64_t tokens);

  // The token that must come next, where there is one.
  std::optional<std::int32_t> forced() const;
  // A token has come, with the text that it completed.
  void take(std::string_view text);

 private:
  const std::vector<std::int32_t>& closing_;
  std::unique_ptr<ReasoningParser> parser_;
  std::int64_t left_;
  size_t next_ = 0;  // of closing_
  bool closes_ = false;
};

}  // namespace quern::engine
