// A list of calls in Python's syntax. It may stand anywhere in the text: what makes it one is the
// name of a tool after the bracket.
#include <utility>

#include "text/tool_calls/formats.h"
#include "text/tool_calls/json_scanner.h"
#include "text/tool_calls/python_value.h"

namespace quern::text {
namespace {

using Step = PythonValue::Step;

bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

std::vector<std::string_view> openers(const PythonicFormat& format) {
  if (format.begin.empty()) return {"["};
  return {"[", format.begin};
}

class PythonicCalls : public CallStream {
 public:
  PythonicCalls(PythonicFormat format, std::shared_ptr<const ToolSet> tools)
      : CallStream(std::move(tools)), format_(format), scanner_(openers(format)) {}

  std::vector<std::string_view> marks() const override { return {format_.begin, format_.end}; }

 protected:
  void step(char c) override {
    switch (state_) {
      case State::kText: return in_text(c);
      case State::kMarked: return after_mark(c);
      case State::kBeforeName: return before_name(c);
      case State::kName: return in_name(c);
      case State::kBeforeKey: return before_key(c);
      case State::kKey: return in_key(c);
      case State::kEquals: return before_equals(c);
      case State::kValue: return in_value(c);
      case State::kAfterValue: return after_value(c);
      case State::kAfterCall: return after_call(c);
      case State::kEndMark: return in_end_mark(c);
    }
  }

  void end() override {
    if (in_call()) end_call(false);
    text(scanner_.take());
    const bool head = state_ == State::kName || state_ == State::kMarked;
    if (head || calls_ == 0) text(held_);
    held_.clear();
  }

 private:
  enum class State {
    kText,
    kMarked,      // after the opening mark
    kBeforeName,  // after '[' or ','
    kName,
    kBeforeKey,  // after '(' or ','
    kKey,
    kEquals,
    kValue,
    kAfterValue,
    kAfterCall,
    kEndMark,
  };

  void in_text(char c) {
    std::string passed;
    const int word = scanner_.step(c, &passed);
    text(passed);
    if (word < 0) return;
    calls_ = 0;
    marked_ = word == 1;
    held_ = marked_ ? format_.begin : "[";
    state_ = marked_ ? State::kMarked : State::kBeforeName;
  }

  void fail(char c) {
    text(std::exchange(held_, {}));
    state_ = State::kText;
    step(c);
  }

  // Keeps `c` of a call's head; false, and the head is text, where that grows too long.
  bool keep(char c) {
    if (held_.size() > kMaxHead) {
      fail(c);
      return false;
    }
    held_ += c;
    return true;
  }

  void after_mark(char c) {
    if (c != '[' && !is_blank(c)) return fail(c);
    if (keep(c) && c == '[') state_ = State::kBeforeName;
  }

  void before_name(char c) {
    if (c == ']' && calls_ > 0) return after_call(c);
    if (!is_blank(c) && !is_name(c)) return fail(c);
    if (!keep(c) || is_blank(c)) return;
    name_ = c;
    state_ = State::kName;
  }

  void in_name(char c) {
    if (c == '(') {
      if (!known(name_)) return fail(c);
      held_.clear();
      begin_call(name_);
      ++calls_;
      parameters_ = 0;
      state_ = State::kBeforeKey;
      return;
    }
    if (!is_name(c) && c != '.' && c != '-') return fail(c);
    if (keep(c)) name_ += c;
  }

  void before_key(char c) {
    if (is_blank(c)) return;
    if (c == ')') return close();
    if (!is_name(c)) return broken(c);
    key_ = c;
    state_ = State::kKey;
  }

  void in_key(char c) {
    if (is_name(c) && key_.size() < kMaxHead) {
      key_ += c;
      return;
    }
    state_ = State::kEquals;
    before_equals(c);
  }

  void before_equals(char c) {
    if (is_blank(c)) return;
    if (c != '=') {
      held_ = key_;
      return broken(c);
    }
    arguments((parameters_++ == 0 ? "{" : ", ") + json_quoted(key_) + ": ");
    value_ = PythonValue();
    state_ = State::kValue;
  }

  void in_value(char c) {
    std::string json;
    const Step step = value_.step(c, &json);
    arguments(json);
    if (step == Step::kBad) return broken(c);
    if (step == Step::kInside) return;
    state_ = State::kAfterValue;
    if (step == Step::kDoneBefore) after_value(c);
  }

  void after_value(char c) {
    if (is_blank(c)) return;
    if (c == ')') return close();
    if (c != ',') return broken(c);
    state_ = State::kBeforeKey;
  }

  void close() {
    arguments(parameters_ == 0 ? "{}" : "}");
    end_call(true);
    state_ = State::kAfterCall;
  }

  // No Python, or more of it than literals: what comes now is text.
  void broken(char c) {
    end_call(false);
    fail(c);
  }

  void after_call(char c) {
    if (c != ',' && c != ']' && !is_blank(c)) return fail(c);
    if (!keep(c)) return;
    if (c == ',') state_ = State::kBeforeName;
    if (c != ']') return;
    held_.clear();
    mark_.clear();
    state_ = marked_ ? State::kEndMark : State::kText;
  }

  void in_end_mark(char c) {
    if (mark_.empty() && is_blank(c) && keep(c)) return;
    if (state_ == State::kText) return;
    mark_ += c;
    const int match = match_word(mark_, {format_.end});
    if (match == kNoWord) return fail(c);
    if (match == kPart) {
      held_ += c;
      return;
    }
    held_.clear();
    state_ = State::kText;
  }

  const PythonicFormat format_;
  WordScanner scanner_;
  State state_ = State::kText;
  bool marked_ = false;
  int calls_ = 0;       // of this list
  int parameters_ = 0;  // of this call
  std::string held_, name_, key_, mark_;
  PythonValue value_;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_pythonic_calls(PythonicFormat format,
                                                    std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<PythonicCalls>(format, std::move(tools));
}

}  // namespace quern::text
