// Gemma 4: names and keys without quotes, and strings between marks of their own:
//   <|tool_call>call:f{a:<|"|>x<|"|>,b:[1,true],c:{d:2}}<tool_call|>
#include <utility>

#include "text/tool_calls/formats.h"
#include "text/tool_calls/json_scanner.h"

namespace quern::text {
namespace {

constexpr std::string_view kBegin = "<|tool_call>", kEnd = "<tool_call|>", kQuote = "<|\"|>";
constexpr std::string_view kCall = "call:";
constexpr size_t kMaxWord = 1024, kMaxDepth = 256;

// A value without quotes: a number or a word of JSON, else text.
std::string bare_json(std::string_view text) {
  const std::string_view word = without_blanks(text);
  return json_kind(word) == JsonKind::kNone ? json_quoted(word) : std::string(word);
}

class GemmaCalls : public CallStream {
 public:
  explicit GemmaCalls(std::shared_ptr<const ToolSet> tools)
      : CallStream(std::move(tools)), scanner_({kBegin}), quote_({kQuote}) {}

  std::vector<std::string_view> marks() const override { return {kBegin, kEnd, kQuote}; }

 protected:
  void step(char c) override {
    switch (state_) {
      case State::kText: return in_text(c);
      case State::kHead: return in_head(c);
      case State::kKey: return in_key(c);
      case State::kValue: return before_value(c);
      case State::kQuote: return in_quote(c);
      case State::kString: return in_string(c);
      case State::kBare: return in_bare(c);
      case State::kAfter: return after_value(c);
      case State::kTail: return in_tail(c);
    }
  }

  void end() override {
    if (in_call()) end_call(false);
    text(scanner_.take());
    if (state_ == State::kHead) text(held_);
    held_.clear();
  }

 private:
  enum class State {
    kText,
    kHead,   // call:NAME
    kKey,    // up to ':'
    kValue,  // before a value
    kQuote,  // within the mark that opens a string
    kString,
    kBare,
    kAfter,
    kTail,  // the closing mark
  };
  struct Container {
    bool object;
    int items = 0;
  };

  void in_text(char c) {
    std::string passed;
    const int word = scanner_.step(c, &passed);
    text(passed);
    if (word < 0) return;
    held_ = kBegin;
    state_ = State::kHead;
  }

  void fail(char c) {
    text(std::exchange(held_, {}));
    state_ = State::kText;
    step(c);
  }

  void in_head(char c) {
    const std::string_view head = without_blanks(std::string_view(held_).substr(kBegin.size()));
    if (c == '{') {
      if (!head.starts_with(kCall) || !known(without_blanks(head.substr(kCall.size())))) {
        return fail(c);
      }
      std::string name(without_blanks(head.substr(kCall.size())));
      held_.clear();
      begin_call(std::move(name));
      return open(true);
    }
    const bool begins =
        head.size() < kCall.size() ? kCall.starts_with(head) : head.starts_with(kCall);
    if (!begins || held_.size() > kMaxWord) return fail(c);
    held_ += c;
  }

  void open(bool object) {
    arguments(object ? "{" : "[");
    open_.push_back({object});
    word_.clear();
    state_ = object ? State::kKey : State::kValue;
  }

  void broken(char c) {
    end_call(false);
    open_.clear();
    fail(c);
  }

  void close(char c) {
    if (c != (open_.back().object ? '}' : ']')) return broken(c);
    arguments({&c, 1});
    open_.pop_back();
    state_ = State::kAfter;
    if (!open_.empty()) return;
    end_call(true);
    held_.clear();
    mark_.clear();
    state_ = State::kTail;
  }

  void comma() {
    if (open_.back().items++ > 0) arguments(", ");
  }

  void in_key(char c) {
    const std::string_view key = without_blanks(word_);
    if (key.empty() && (c == '}' || c == ',')) {
      if (c == '}') close(c);
      return;
    }
    if (c != ':') {
      word_ += c;
      if (word_.size() > kMaxWord) broken_after();
      return;
    }
    const bool quoted =
        key.size() >= 2 * kQuote.size() && key.starts_with(kQuote) && key.ends_with(kQuote);
    comma();
    arguments(
        json_quoted(quoted ? key.substr(kQuote.size(), key.size() - 2 * kQuote.size()) : key) +
        ": ");
    state_ = State::kValue;
  }

  void broken_after() {
    end_call(false);
    open_.clear();
    text(std::exchange(word_, {}));
    state_ = State::kText;
  }

  void before_value(char c) {
    if (is_blank(c)) return;
    const bool list = !open_.back().object;
    if (c == ']' && list) return close(c);
    if (c == ',' || c == '}' || c == ']') return broken(c);
    if ((c == '{' || c == '[') && open_.size() >= kMaxDepth) return broken(c);
    if (list) comma();
    if (c == '{' || c == '[') return open(c == '{');
    word_ = c;
    state_ = c == kQuote[0] ? State::kQuote : State::kBare;
  }

  void in_quote(char c) {
    word_ += c;
    const int match = match_word(word_, {kQuote});
    if (match == kPart) return;
    if (match == kNoWord) {
      word_.pop_back();
      state_ = State::kBare;
      return in_bare(c);
    }
    arguments("\"");
    state_ = State::kString;
  }

  void in_string(char c) {
    std::string passed, escaped;
    const int word = quote_.step(c, &passed);
    append_json_escaped(passed, &escaped);
    arguments(escaped);
    if (word < 0) return;
    arguments("\"");
    state_ = State::kAfter;
  }

  void in_bare(char c) {
    if (c == ',' || c == '}' || c == ']') {
      arguments(bare_json(word_));
      state_ = State::kAfter;
      return after_value(c);
    }
    word_ += c;
    if (word_.size() > kMaxHead) broken_after();
  }

  void after_value(char c) {
    if (is_blank(c)) return;
    if (c != ',') return close(c);
    word_.clear();
    state_ = open_.back().object ? State::kKey : State::kValue;
  }

  void in_tail(char c) {
    if (held_.size() > kMaxHead) return fail(c);
    held_ += c;
    if (mark_.empty() && is_blank(c)) return;
    mark_ += c;
    const int match = match_word(mark_, {kEnd});
    if (match == kPart) return;
    if (match == kNoWord) {
      held_.pop_back();
      return fail(c);
    }
    held_.clear();
    state_ = State::kText;
  }

  WordScanner scanner_, quote_;
  State state_ = State::kText;
  std::vector<Container> open_;
  std::string held_, mark_, word_;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_gemma_calls(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<GemmaCalls>(std::move(tools));
}

}  // namespace quern::text
