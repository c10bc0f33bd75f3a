// Reasoning apart from the answer (quern/output_parsers.h). Formats are rows of a table; all but
// gpt-oss's are two marks around the beginning of the answer.
#include <algorithm>
#include <utility>

#include "quern/output_parsers.h"
#include "text/tool_calls/call_stream.h"

namespace quern {
namespace {

using text::is_blank;
using text::WordScanner;

struct Format {
  std::string_view name;
  std::string_view begin, end;  // "" where the format is gpt-oss's
  bool forced = false;          // reasoning without an opening mark, unless the prompt says more
  std::string_view call = "";   // what begins a call of a tool, and ends reasoning
  bool kept = false;            // nothing is taken apart; an opening mark is put before
  bool wrapped = false;         // the answer stands in marks of its own, which are left out
};

constexpr std::string_view kThink = "<think>", kThinkEnd = "</think>", kCall = "<tool_call>";

constexpr Format kFormats[] = {
    {.name = "apertus2509", .begin = "<|inner_prefix|>", .end = "<|inner_suffix|>"},
    {.name = "cohere_command4",
     .begin = "<|START_THINKING|>",
     .end = "<|END_THINKING|>",
     .call = "<|START_ACTION|>",
     .wrapped = true},
    {.name = "deepseek-r1", .begin = kThink, .end = kThinkEnd, .forced = true},
    {.name = "deepseek-v3", .begin = kThink, .end = kThinkEnd},
    {.name = "deepseek-v4", .begin = kThink, .end = kThinkEnd, .call = "<｜DSML｜tool_calls>"},
    {.name = "gemma4", .begin = "<|channel>thought", .end = "<channel|>"},
    {.name = "glm45", .begin = kThink, .end = kThinkEnd, .call = kCall},
    {.name = "gpt-oss", .begin = "", .end = ""},
    {.name = "hunyuan", .begin = kThink, .end = kThinkEnd, .call = "<tool_calls>"},
    {.name = "interns1", .begin = kThink, .end = kThinkEnd, .call = kCall},
    {.name = "kimi", .begin = "◁think▷", .end = "◁/think▷"},
    {.name = "kimi_k2", .begin = kThink, .end = kThinkEnd, .call = "<|tool_calls_section_begin|>"},
    {.name = "mimo", .begin = kThink, .end = kThinkEnd, .call = kCall},
    {.name = "minimax",
     .begin = kThink,
     .end = kThinkEnd,
     .forced = true,
     .call = "<minimax:tool_call>"},
    {.name = "minimax-append-think", .begin = kThink, .end = kThinkEnd, .kept = true},
    {.name = "minimax-m3", .begin = "<mm:think>", .end = "</mm:think>"},
    {.name = "mistral", .begin = "[THINK]", .end = "[/THINK]"},
    {.name = "nemotron_3", .begin = kThink, .end = kThinkEnd, .call = kCall},
    {.name = "qwen3", .begin = kThink, .end = kThinkEnd, .call = kCall},
    {.name = "qwen3-thinking", .begin = kThink, .end = kThinkEnd, .forced = true, .call = kCall},
    {.name = "step3", .begin = kThink, .end = kThinkEnd, .forced = true},
    {.name = "step3p5", .begin = kThink, .end = kThinkEnd, .forced = true},
};

const Format* find(std::string_view name) {
  const auto found = std::find_if(std::begin(kFormats), std::end(kFormats),
                                  [&](const Format& format) { return format.name == name; });
  return found == std::end(kFormats) ? nullptr : found;
}

constexpr size_t kMaxBlanks = 4 << 10;

class MarkedReasoning : public ReasoningParser {
 public:
  MarkedReasoning(const Format& format, ReasoningStart start)
      : format_(format),
        end_(format.call.empty() ? std::vector<std::string_view>{format.end}
                                 : std::vector<std::string_view>{format.end, format.call}),
        wrappers_({"<|START_TEXT|>", "<|END_TEXT|>", "<|START_RESPONSE|>", "<|END_RESPONSE|>"}) {
    const bool open =
        start == ReasoningStart::kOpen || (format.forced && start == ReasoningStart::kUnstated);
    state_ = open                               ? State::kOpening
             : start == ReasoningStart::kClosed ? State::kContent
                                                : State::kBegin;
  }

  void push(std::string_view piece, std::string* reasoning, std::string* content) override {
    for (const char c : piece) step(c, reasoning, content);
  }

  void finish(std::string* reasoning, std::string* content) override {
    switch (state_) {
      case State::kBegin: *content += held_; break;
      case State::kOpening: *reasoning += held_; break;
      case State::kReasoning: *reasoning += blanks_ + end_.take(); break;
      case State::kAfter: break;
      case State::kContent: *content += wrappers_.take(); break;
    }
    held_.clear();
    blanks_.clear();
  }

  bool in_reasoning() const override {
    return state_ == State::kOpening || state_ == State::kReasoning;
  }

  std::vector<std::string_view> marks() const override {
    return {format_.begin, format_.end, format_.call};
  }

 private:
  enum class State {
    kBegin,    // an opening mark may come
    kOpening,  // within reasoning, where the opening mark may still be repeated
    kReasoning,
    kAfter,  // blanks after the closing mark
    kContent,
  };

  void step(char c, std::string* reasoning, std::string* content) {
    switch (state_) {
      case State::kBegin:
      case State::kOpening: return begin(c, reasoning, content);
      case State::kReasoning: return think(c, reasoning, content);
      case State::kAfter:
        if (is_blank(c)) return;
        state_ = State::kContent;
        return answer(c, content);
      case State::kContent: return answer(c, content);
    }
  }

  // Blanks and then the opening mark, or none.
  void begin(char c, std::string* reasoning, std::string* content) {
    held_ += c;
    const size_t blanks = std::min(held_.find_first_not_of(" \n\t\r"), held_.size());
    const std::string_view mark = std::string_view(held_).substr(blanks);
    const bool blank_only = mark.empty() && held_.size() <= kMaxBlanks;
    if (blank_only || (!mark.empty() && format_.begin.starts_with(mark))) {
      if (mark != format_.begin) return;
      held_.clear();
      skip_blanks_ = true;
      state_ = State::kReasoning;
      return;
    }
    const bool reasons = state_ == State::kOpening;
    state_ = reasons ? State::kReasoning : State::kContent;
    skip_blanks_ = reasons;
    for (const char byte : std::exchange(held_, {})) step(byte, reasoning, content);
  }

  void think(char c, std::string* reasoning, std::string* content) {
    std::string passed;
    const int word = end_.step(c, &passed);
    for (const char byte : passed) {
      if (!is_blank(byte)) {
        *reasoning += std::exchange(blanks_, {});
        *reasoning += byte;
        skip_blanks_ = false;
      } else if (!skip_blanks_) {
        blanks_ += byte;
        if (blanks_.size() > kMaxBlanks) *reasoning += std::exchange(blanks_, {});
      }
    }
    if (word < 0) return;
    blanks_.clear();
    state_ = word == 0 ? State::kAfter : State::kContent;
    if (word == 1) *content += format_.call;
  }

  void answer(char c, std::string* content) {
    if (format_.wrapped) {
      wrappers_.step(c, content);
    } else {
      *content += c;
    }
  }

  const Format& format_;
  State state_ = State::kBegin;
  bool skip_blanks_ = false;  // those after the opening mark
  WordScanner end_, wrappers_;
  std::string held_;    // of the beginning
  std::string blanks_;  // may stand before the closing mark
};

// gpt-oss: the channel `analysis` is reasoning. Messages with a recipient are calls and stay as
// they are, marks included, for the parser of calls.
class HarmonyReasoning : public ReasoningParser {
 public:
  HarmonyReasoning()
      : marks_({"<|start|>", "<|channel|>", "<|end|>", "<|call|>", "<|return|>"}),
        message_({"<|message|>"}) {}

  void push(std::string_view piece, std::string* reasoning, std::string* content) override {
    for (const char c : piece) step(c, reasoning, content);
  }

  void finish(std::string* reasoning, std::string* content) override {
    *(analysis_ ? reasoning : content) += marks_.take();
    if (in_header_) *content += held_;
    held_.clear();
  }

  bool in_reasoning() const override { return analysis_; }

  std::vector<std::string_view> marks() const override {
    return {"<|start|>",  "<|channel|>", "<|end|>",      "<|call|>",
            "<|return|>", "<|message|>", "<|constrain|>"};
  }

 private:
  static constexpr size_t kMaxHeader = 1024;

  void step(char c, std::string* reasoning, std::string* content) {
    if (in_header_) return header(c, reasoning, content);
    const int word = marks_.step(c, analysis_ ? reasoning : content);
    if (word < 0) return;
    constexpr std::string_view kMarks[] = {"<|start|>", "<|channel|>", "<|end|>", "<|call|>",
                                           "<|return|>"};
    const std::string_view mark = kMarks[word];
    if (word >= 2) {
      if (raw_ || !in_message_) *content += mark;
    } else {
      held_ = mark;
      header_.clear();
      in_header_ = true;
    }
    analysis_ = in_message_ = raw_ = false;
  }

  void header(char c, std::string* reasoning, std::string* content) {
    held_ += c;
    const bool ends = message_.step(c, &header_) >= 0;
    if (!ends && held_.size() <= kMaxHeader) return;
    in_header_ = false;
    in_message_ = ends;
    raw_ = !ends || header_.find("to=") != header_.npos;
    analysis_ = !raw_ && header_.find("analysis") != header_.npos;
    if (raw_) *content += held_;
    if (!ends) message_.take();
    held_.clear();
    static_cast<void>(reasoning);
  }

  WordScanner marks_, message_;
  bool in_header_ = false, in_message_ = false, raw_ = false, analysis_ = false;
  std::string held_, header_;
};

class MarkBefore : public ReasoningParser {
 public:
  explicit MarkBefore(std::string_view mark) : mark_(mark) {}
  void push(std::string_view piece, std::string*, std::string* content) override {
    if (piece.empty()) return;
    *content += std::exchange(mark_, {});
    *content += piece;
  }
  void finish(std::string*, std::string*) override {}
  bool in_reasoning() const override { return false; }

  std::vector<std::string_view> marks() const override { return {kThink, kThinkEnd}; }

 private:
  std::string_view mark_;
};

}  // namespace

std::unique_ptr<ReasoningParser> make_reasoning_parser(std::string_view format,
                                                       ReasoningStart start) {
  const Format* found = find(format);
  if (found == nullptr) return nullptr;
  if (found->begin.empty()) return std::make_unique<HarmonyReasoning>();
  if (found->kept) return std::make_unique<MarkBefore>(found->begin);
  return std::make_unique<MarkedReasoning>(*found, start);
}

std::vector<std::string_view> reasoning_formats() {
  std::vector<std::string_view> names;
  for (const Format& format : kFormats) names.push_back(format.name);
  return names;
}

ReasoningStart reasoning_start(std::string_view format, std::string_view prompt_end) {
  const Format* found = find(format);
  if (found == nullptr || found->begin.empty()) return ReasoningStart::kUnstated;
  const std::string_view end = text::without_blanks(prompt_end);
  if (end.ends_with(found->begin)) return ReasoningStart::kOpen;
  return end.ends_with(found->end) ? ReasoningStart::kClosed : ReasoningStart::kUnstated;
}

std::string_view reasoning_begin_mark(std::string_view format) {
  const Format* found = find(format);
  return found == nullptr || found->kept ? std::string_view() : found->begin;
}

std::string_view reasoning_end_mark(std::string_view format) {
  const Format* found = find(format);
  return found == nullptr || found->kept ? std::string_view() : found->end;
}

}  // namespace quern
