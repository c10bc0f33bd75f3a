// gpt-oss: messages with a channel and, for calls, a recipient:
//   <|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>{…}<|call|>
// Of other messages the marks are left out; their text is text.
#include <utility>

#include "text/tool_calls/formats.h"
#include "text/tool_calls/json_scanner.h"

namespace quern::text {
namespace {

using Step = JsonScanner::Step;

constexpr size_t kMaxHeader = 1024;
constexpr int kOpeners = 2;  // the first of the words: <|start|> and <|channel|> begin a header

std::vector<std::string_view> all_words() {
  return {"<|start|>", "<|channel|>", "<|end|>", "<|call|>", "<|return|>"};
}

// The function that a header addresses; "" for none.
std::string_view recipient(std::string_view header) {
  constexpr std::string_view kTo = "to=functions.";
  const size_t at = header.find(kTo);
  if (at == header.npos) return {};
  header.remove_prefix(at + kTo.size());
  return header.substr(0, header.find_first_of(" <\n\t\r"));
}

class HarmonyCalls : public CallStream {
 public:
  explicit HarmonyCalls(std::shared_ptr<const ToolSet> tools)
      : CallStream(std::move(tools)), scanner_(all_words()) {}

  std::vector<std::string_view> marks() const override {
    std::vector<std::string_view> marks = all_words();
    marks.insert(marks.end(), {"<|message|>", "<|constrain|>"});
    return marks;
  }

 protected:
  void step(char c) override {
    switch (state_) {
      case State::kText: return in_text(c);
      case State::kHeader: return in_header(c);
      case State::kArguments: return in_arguments(c);
      case State::kRest: return in_rest(c);
    }
  }

  void end() override {
    if (in_call()) {
      const bool complete = whole_ || json_.ends_here();
      if (!complete) arguments(scanner_.take());
      end_call(complete);
      scanner_.take();
    }
    text(scanner_.take());
    text(std::exchange(held_, {}));
  }

 private:
  enum class State { kText, kHeader, kArguments, kRest };

  void in_text(char c) {
    std::string passed;
    const int word = scanner_.step(c, &passed);
    text(passed);
    if (word < 0) return;
    const std::string_view mark = all_words()[static_cast<size_t>(word)];
    if (word < kOpeners) {
      held_ = mark;
      header_scanner_ = WordScanner({"<|message|>"});
      header_.clear();
      state_ = State::kHeader;
    } else if (!std::exchange(in_message_, false)) {
      text(mark);
    }
  }

  void in_header(char c) {
    if (held_.size() > kMaxHeader) {
      text(std::exchange(held_, {}));
      state_ = State::kText;
      return step(c);
    }
    held_ += c;
    if (header_scanner_.step(c, &header_) < 0) return;
    const std::string_view name = recipient(header_);
    const bool to_other = name.empty() ? header_.find("to=") != header_.npos : !known(name);
    state_ = State::kText;
    in_message_ = !to_other;
    if (to_other) text(held_);
    held_.clear();
    if (to_other || name.empty()) return;
    begin_call(std::string(name));
    json_ = JsonScanner();
    whole_ = false;
    state_ = State::kArguments;
  }

  void in_arguments(char c) {
    if (!whole_) {
      if (json_.empty() && is_blank(c)) return;
      std::string piece;
      const Step step = json_.step(c, &piece);
      arguments(piece);
      whole_ = step == Step::kDone || step == Step::kDoneBefore;
      if (step == Step::kBad && json_.empty() && c == '<') {
        arguments("{}");
        whole_ = true;
      }
      if (step == Step::kBad && !whole_) state_ = State::kRest;
      if (step == Step::kDone || step == Step::kInside) return;
      if (state_ == State::kRest) return in_rest(c);
    }
    if (scanner_.held().empty() && is_blank(c)) return;
    std::string passed;
    const int word = scanner_.step(c, &passed);
    if (word >= 0) return leave(word, true);
    if (passed.empty()) return;
    // Something follows the arguments that is no mark.
    end_call(true);
    in_message_ = false;
    state_ = State::kText;
    text(passed);
  }

  void in_rest(char c) {
    std::string passed;
    const int word = scanner_.step(c, &passed);
    arguments(passed);
    if (word >= 0) leave(word, false);
  }

  void leave(int word, bool complete) {
    end_call(complete);
    in_message_ = false;
    state_ = State::kText;
    if (word >= kOpeners) return;
    held_ = all_words()[static_cast<size_t>(word)];
    header_scanner_ = WordScanner({"<|message|>"});
    header_.clear();
    state_ = State::kHeader;
  }

  WordScanner scanner_, header_scanner_;
  State state_ = State::kText;
  bool in_message_ = false;  // a header was left out, so its closing mark is too
  bool whole_ = false;       // the arguments are
  std::string held_, header_;
  JsonScanner json_;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_harmony_calls(std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<HarmonyCalls>(std::move(tools));
}

}  // namespace quern::text
