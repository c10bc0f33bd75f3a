// Calls whose parameters have tags of their own. Values stand between the tags as they are; what
// they become in JSON is the schema's to say. Text is passed on as it comes, other types when they
// are whole.
#include <utility>

#include "text/tool_calls/formats.h"
#include "text/tool_calls/json_scanner.h"

namespace quern::text {
namespace {

using Step = JsonScanner::Step;

constexpr size_t kMaxName = 1024;

std::vector<std::string_view> openers(const TaggedFormat& format) {
  if (format.section_begin.empty()) return {format.call_begin};
  return {format.call_begin, format.section_begin};
}

class TaggedCalls : public CallStream {
 public:
  TaggedCalls(TaggedFormat format, std::shared_ptr<const ToolSet> tools)
      : CallStream(std::move(tools)), format_(format), scanner_(openers(format)) {}

  std::vector<std::string_view> marks() const override {
    return {format_.section_begin, format_.section_end, format_.call_begin,
            format_.name_end,      format_.call_end,    format_.key_begin,
            format_.key_end,       format_.value_begin, format_.value_end};
  }

 protected:
  void step(char c) override {
    switch (state_) {
      case State::kText: return in_text(c);
      case State::kSection: return in_section(c);
      case State::kName: return in_name(c);
      case State::kParameters: return in_parameters(c);
      case State::kKey: return in_key(c);
      case State::kSaysString: return in_says_string(c);
      case State::kBeforeValue: return before_value(c);
      case State::kValue: return in_value(c);
      case State::kJson: return in_json(c);
    }
  }

  void end() override {
    // What may be the beginning of the closing tag is taken for that; a value that is no text is no
    // value before it is whole.
    if (state_ == State::kValue && types_ == kStringType) write_string(false);
    if (in_call()) end_call(false);
    text(scanner_.take());
    if (state_ == State::kName || calls_in_section_ == 0) text(held_);
    held_.clear();
  }

 private:
  enum class State {
    kText,
    kSection,  // between calls
    kName,
    kParameters,  // between parameters
    kKey,
    kSaysString,  // the rest of a parameter's opening tag
    kBeforeValue,
    kValue,
    kJson,  // arguments that are one JSON object in place of tags
  };

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
    scanner_of_word_ = WordScanner({format_.name_end});
  }

  void fail(char c) {
    text(std::exchange(held_, {}));
    state_ = State::kText;
    step(c);
  }

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
    if (calls_in_section_ == 0) text(held_);
    held_.clear();
    state_ = State::kText;
  }

  void in_name(char c) {
    if (name_.size() > kMaxName) return fail(c);
    if (format_.name_end.empty()) {
      if (c == '<') {
        if (!begin()) return fail(c);
        return in_parameters(c);
      }
      name_ += c;
    } else if (scanner_of_word_.step(c, &name_) >= 0) {
      if (!begin()) return fail(c);
      return;
    }
    held_ += c;
  }

  bool begin() {
    const std::string name(without_blanks(name_));
    if (!known(name)) return false;
    held_.clear();
    begin_call(name);
    ++calls_in_section_;
    parameters_ = 0;
    open_parameters();
    return true;
  }

  void open_parameters() {
    state_ = State::kParameters;
    mark_.clear();
  }

  void in_parameters(char c) {
    if (held_.size() > kMaxHead) return broken(c);
    if (mark_.empty() && is_blank(c)) {
      held_ += c;
      return;
    }
    if (mark_.empty() && c == '{' && parameters_ == 0) {
      held_.clear();
      json_ = JsonScanner();
      state_ = State::kJson;
      return in_json(c);
    }
    mark_ += c;
    const int match = match_word(mark_, {format_.key_begin, format_.call_end});
    if (match == kNoWord) return broken(c);
    held_ += c;
    if (match == kPart) return;
    if (match == 0 && parameters_ == kWholeJson) return broken_after();
    held_.clear();
    mark_.clear();
    if (match == 1) return close(true);
    key_.clear();
    scanner_of_word_ = WordScanner({format_.key_end});
    state_ = State::kKey;
  }

  // What stands between parameters is none: it is text, and the call ends before it.
  void broken(char c) {
    close(false);
    in_section_ = false;
    fail(c);
  }

  void close(bool complete) {
    if (parameters_ != kWholeJson) arguments(parameters_ == 0 ? "{}" : "}");
    end_call(complete);
    if (in_section_) return open_section();
    state_ = State::kText;
  }

  void in_key(char c) {
    if (scanner_of_word_.step(c, &key_) < 0) {
      if (key_.size() > kMaxName) {
        held_ = std::string(format_.key_begin) + key_ + scanner_of_word_.take();
        broken_after();
      }
      return;
    }
    key_ = without_blanks(key_);
    types_ = tools().types(call_name(), key_);
    if (format_.says_string) {
      mark_.clear();
      state_ = State::kSaysString;
    } else {
      open_value();
    }
  }

  // As broken(), where the byte is held already.
  void broken_after() {
    close(false);
    in_section_ = false;
    text(std::exchange(held_, {}));
    state_ = State::kText;
  }

  void in_says_string(char c) {
    mark_ += c;
    if (c == '>') {
      if (mark_.find("true") != mark_.npos) types_ = kStringType;
      if (mark_.find("false") != mark_.npos) {
        types_ = static_cast<TypeMask>(types_ & ~kStringType);
      }
      return open_value();
    }
    if (mark_.size() <= kMaxName) return;
    held_ = std::string(format_.key_begin) + key_ + std::string(format_.key_end) + mark_;
    broken_after();
  }

  void open_value() {
    mark_.clear();
    held_.clear();
    state_ = State::kBeforeValue;
    if (format_.value_begin.empty()) start_value();
  }

  void before_value(char c) {
    if (mark_.empty() && is_blank(c) && held_.size() < kMaxHead) {
      held_ += c;
      return;
    }
    mark_ += c;
    const int match = match_word(mark_, {format_.value_begin});
    if (match == kNoWord) {
      held_ = std::string(format_.key_begin) + key_ + std::string(format_.key_end) + held_ + mark_;
      return broken_after();
    }
    if (match == 0) start_value();
  }

  void start_value() {
    held_.clear();
    arguments(parameters_++ == 0 ? "{" : ", ");
    arguments(json_quoted(key_) + ": ");
    value_.clear();
    quote_open_ = false;
    at_value_begin_ = true;
    value_scanner_ = WordScanner({format_.value_end});
    state_ = State::kValue;
  }

  void in_value(char c) {
    const bool ends = value_scanner_.step(c, &value_) >= 0;
    if (ends) {
      if (types_ == kStringType) {
        write_string(true);
        arguments("\"");
      } else {
        trim(true);
        arguments(value_as_json(value_, types_));
      }
      return open_parameters();
    }
    // What is too long for any other type is text.
    if (types_ != kStringType && value_.size() > kMaxHeld) types_ = kStringType;
    if (types_ == kStringType) write_string(false);
  }

  // Takes the format's own line breaks off what is there of the value.
  void trim(bool whole) {
    if (!format_.trims_newlines) return;
    if (at_value_begin_ && !value_.empty()) {
      if (value_.front() == '\n') value_.erase(0, 1);
      at_value_begin_ = false;
    }
    if (whole && value_.ends_with('\n')) value_.pop_back();
  }

  // Passes on what there is of a text; a line break at its end waits for what follows.
  void write_string(bool whole) {
    trim(whole);
    if (!std::exchange(quote_open_, true)) arguments("\"");
    const bool waits = !whole && format_.trims_newlines && value_.ends_with('\n');
    std::string escaped;
    append_json_escaped(std::string_view(value_).substr(0, value_.size() - (waits ? 1 : 0)),
                        &escaped);
    arguments(escaped);
    value_ = waits ? "\n" : "";
  }

  void in_json(char c) {
    std::string piece;
    const Step step = json_.step(c, &piece);
    arguments(piece);
    if (step == Step::kDone) {
      parameters_ = kWholeJson;
      open_parameters();
    } else if (step == Step::kBad) {
      parameters_ = kWholeJson;
      broken(c);
    }
  }

  static constexpr int kWholeJson = -1;

  const TaggedFormat format_;
  WordScanner scanner_, scanner_of_word_, value_scanner_;
  State state_ = State::kText;
  bool in_section_ = false;
  int calls_in_section_ = 0;
  int parameters_ = 0;  // of the call so far; kWholeJson: they are one object
  std::string held_, mark_, name_, key_;
  std::string value_;  // what is not written of it yet
  TypeMask types_ = 0;
  bool quote_open_ = false, at_value_begin_ = false;
  JsonScanner json_;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_tagged_calls(TaggedFormat format,
                                                  std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<TaggedCalls>(format, std::move(tools));
}

}  // namespace quern::text
