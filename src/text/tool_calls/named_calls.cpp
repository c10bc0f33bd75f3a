// Calls whose name stands between marks and whose arguments are one JSON value after it.
#include <utility>

#include "text/tool_calls/formats.h"
#include "text/tool_calls/json_scanner.h"

namespace quern::text {
namespace {

using Step = JsonScanner::Step;

std::vector<std::string_view> openers(const NamedFormat& format) {
  if (format.section_begin.empty()) return {format.call_begin};
  return {format.call_begin, format.section_begin};
}

class NamedCalls : public CallStream {
 public:
  NamedCalls(NamedFormat format, std::shared_ptr<const ToolSet> tools)
      : CallStream(std::move(tools)), format_(format), scanner_(openers(format)) {}

  std::vector<std::string_view> marks() const override {
    return {format_.section_begin, format_.section_end, format_.call_begin,
            format_.name_end,      format_.args_end,    format_.call_end};
  }

 protected:
  void step(char c) override {
    switch (state_) {
      case State::kText: return in_text(c);
      case State::kSection: return in_section(c);
      case State::kName: return in_name(c);
      case State::kArguments: return in_arguments(c);
      case State::kTail: return in_tail(c);
      case State::kRest: return in_rest(c);
    }
  }

  void end() override {
    if (state_ == State::kRest) arguments(rest_.take());
    const bool complete =
        state_ == State::kTail || (state_ == State::kArguments && json_.ends_here());
    if (in_call()) end_call(complete);
    text(scanner_.take());
    // Marks that are cut off say nothing after a call.
    if (state_ == State::kName || calls_in_section_ == 0) text(held_);
    held_.clear();
  }

 private:
  enum class State { kText, kSection, kName, kArguments, kTail, kRest };

  void in_text(char c) {
    std::string passed;
    const int word = scanner_.step(c, &passed);
    text(passed);
    if (word < 0) return;
    calls_in_section_ = 0;
    in_section_ = word == 1;
    held_ = in_section_ ? format_.section_begin : format_.call_begin;
    in_section_ ? open_section() : open_name();
  }

  void open_section() {
    state_ = State::kSection;
    mark_.clear();
  }

  void open_name() {
    state_ = State::kName;
    name_.clear();
    name_scanner_ = WordScanner({format_.name_end});
  }

  void fail(char c) {
    text(std::exchange(held_, {}));
    state_ = State::kText;
    step(c);
  }

  // Between the calls of a section.
  void in_section(char c) {
    if (held_.size() > kMaxHead) return fail(c);
    if (mark_.empty() && is_blank(c)) {
      held_ += c;
      return;
    }
    mark_ += c;
    const int match = match_word(mark_, {format_.call_begin, format_.section_end});
    if (match == kNoWord) return fail(c);
    held_ += c;
    if (match == 0) open_name();
    if (match != 1) return;
    if (calls_in_section_ == 0) text(held_);  // an empty section is no call
    held_.clear();
    state_ = State::kText;
  }

  void in_name(char c) {
    if (held_.size() > kMaxHead) return fail(c);
    const int word = name_scanner_.step(c, &name_);
    if (word < 0) {
      held_ += c;
      return;
    }
    std::string id;
    std::string_view name = without_blanks(name_);
    if (format_.name_is_id) {
      id = name;
      if (name.starts_with("functions.")) name.remove_prefix(10);
      const size_t colon = name.rfind(':');
      if (colon != name.npos && name.find_first_not_of("0123456789", colon + 1) == name.npos) {
        name = name.substr(0, colon);
      }
    }
    if (!known(name)) return fail(c);
    held_.clear();
    begin_call(std::string(name), std::move(id));
    ++calls_in_section_;
    json_ = JsonScanner();
    state_ = State::kArguments;
  }

  void in_arguments(char c) {
    if (json_.empty() && is_blank(c)) return;
    std::string piece;
    const Step step = json_.step(c, &piece);
    arguments(piece);
    if (step == Step::kDone) {
      open_tail();
    } else if (step == Step::kDoneBefore) {
      open_tail();
      in_tail(c);
    } else if (step == Step::kBad && json_.empty() && c == format_.call_end[0]) {
      arguments("{}");
      open_tail();
      in_tail(c);
    } else if (step == Step::kBad) {
      rest_ = WordScanner({format_.call_end});
      state_ = State::kRest;
      in_rest(c);
    }
  }

  void open_tail() {
    state_ = State::kTail;
    mark_.clear();
    tail_seen_ = format_.args_end.empty();
  }

  // From the end of the arguments to that of the call.
  void in_tail(char c) {
    if (held_.size() > kMaxHead) return leave_call(c);
    if (mark_.empty() && is_blank(c)) {
      held_ += c;
      return;
    }
    mark_ += c;
    std::vector<std::string_view> words = {format_.call_end};
    if (!tail_seen_) words.push_back(format_.args_end);
    const int match = match_word(mark_, words);
    if (match == kNoWord) return leave_call(c);
    held_ += c;
    if (match == 1) {
      tail_seen_ = true;
      mark_.clear();
    }
    if (match != 0) return;
    end_call(true);
    held_.clear();
    after_call();
  }

  // The arguments are whole, but not the mark behind them.
  void leave_call(char c) {
    end_call(true);
    if (!in_section_) return fail(c);
    // The next call may begin without it.
    const std::string again = std::exchange(held_, {});
    open_section();
    for (const char byte : again) step(byte);
    step(c);
  }

  void after_call() {
    if (in_section_) return open_section();
    state_ = State::kText;
  }

  void in_rest(char c) {
    std::string passed;
    const int word = rest_.step(c, &passed);
    arguments(passed);
    if (word < 0) return;
    end_call(false);
    after_call();
  }

  const NamedFormat format_;
  WordScanner scanner_, name_scanner_, rest_;
  State state_ = State::kText;
  bool in_section_ = false, tail_seen_ = false;
  int calls_in_section_ = 0;
  std::string held_;  // what came since the last call or text
  std::string mark_;  // what has come of a mark
  std::string name_;
  JsonScanner json_;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_named_calls(NamedFormat format,
                                                 std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<NamedCalls>(format, std::move(tools));
}

}  // namespace quern::text
