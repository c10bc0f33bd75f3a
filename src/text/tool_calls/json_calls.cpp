// Calls that are JSON objects, alone, one after the other or in an array, between marks or bare. An
// object's members may come in any order; its arguments are passed on as they come once its name
// is known.
#include <optional>

#include "text/tool_calls/formats.h"
#include "text/tool_calls/json_scanner.h"

namespace quern::text {
namespace {

using Step = JsonScanner::Step;

constexpr size_t kMaxName = 512;

enum class Key { kName, kArguments, kFunction, kOther };

Key key_of(std::string_view key) {
  if (key == "name" || key == "tool_name") return Key::kName;
  if (key == "arguments" || key == "parameters") return Key::kArguments;
  if (key == "function") return Key::kFunction;
  return Key::kOther;
}

// Keys that the objects of calls begin with, where nothing else says that one is a call.
bool begins_call(std::string_view key) {
  return key_of(key) != Key::kOther || key == "type" || key == "id";
}

class JsonCalls : public CallStream {
 public:
  JsonCalls(JsonFormat format, std::shared_ptr<const ToolSet> tools)
      : CallStream(std::move(tools)), format_(std::move(format)), scanner_(format_.begin) {}

  std::vector<std::string_view> marks() const override {
    std::vector<std::string_view> marks = format_.begin;
    marks.push_back(format_.end);
    if (format_.named) marks.insert(marks.end(), {"[ARGS]", "[CALL_ID]"});
    return marks;
  }

 protected:
  void step(char c) override {
    switch (state_) {
      case State::kText: return in_text(c);
      case State::kBlock: return in_block(c);
      case State::kEnd: return at_end(c);
      case State::kRest: return in_rest(c);
      case State::kPlainName: return in_plain_name(c);
      default: return in_object(c);
    }
  }

  void end() override {
    const bool separators = state_ == State::kBlock && calls_in_block_ > 0;
    if (state_ == State::kRest) arguments(rest_.take());
    if (in_call()) {
      if (state_ == State::kQuoted) arguments(string_);
      end_call(state_ == State::kAfterMember && has_arguments_);
      held_.clear();
    }
    text(scanner_.take());
    if (!separators && state_ != State::kEnd) text(held_);
    held_.clear();
  }

 private:
  enum class State {
    kText,
    kBlock,        // before an object, after marks, '[', ',' or an object
    kEnd,          // within the closing mark
    kPlainName,    // a name that stands before its arguments
    kFirstMember,  // after '{'
    kMember,       // after ','
    kKey,
    kColon,
    kValue,
    kName,
    kSkipped,
    kArguments,
    kQuoted,  // arguments that are a string of JSON
    kAfterMember,
    kRest,  // of broken arguments, up to the closing mark
  };

  void in_text(char c) {
    if (format_.bare && at_begin_ && !is_blank(c)) {
      at_begin_ = false;
      if (c == '{' || c == '[') {
        bare_ = true;
        return open_block(c);
      }
    }
    std::string passed;
    const int word = scanner_.step(c, &passed);
    text(passed);
    if (word < 0) return;
    bare_ = false;
    held_ = format_.begin[static_cast<size_t>(word)];
    begin_block();
  }

  void begin_block() {
    list_ = false;
    calls_in_block_ = 0;
    state_ = State::kBlock;
  }

  void open_block(char c) {
    begin_block();
    in_block(c);
  }

  void fail(char c) {
    // Only what is no part of a call that came out.
    text(std::exchange(held_, {}));
    state_ = State::kText;
    at_begin_ = false;
    step(c);
  }

  void in_block(char c) {
    if (held_.size() > kMaxHead) return fail(c);
    const bool first = calls_in_block_ == 0 && !list_;
    if (c == '{') {
      held_ += c;
      open_object();
    } else if (c == '[' && first) {
      held_ += c;
      list_ = true;
    } else if (is_blank(c) || (calls_in_block_ > 0 && (c == ',' || c == ';'))) {
      held_ += c;
    } else if (c == ']' && list_ && calls_in_block_ > 0) {
      list_ = false;
      held_ += c;
      if (format_.end.empty()) leave();
    } else if (!format_.end.empty() && c == format_.end[0] && calls_in_block_ > 0 && !bare_) {
      end_mark_ = "";
      state_ = State::kEnd;
      at_end(c);
    } else if (format_.named && first && !bare_ && c != ']') {
      open_object();
      plain_name_ = true;
      string_.clear();
      state_ = State::kPlainName;
      in_plain_name(c);
    } else {
      fail(c);
    }
  }

  void leave() {
    held_.clear();
    state_ = State::kText;
  }

  // NAME[ARGS]{…}, NAME{…} or NAME[CALL_ID]…[ARGS]{…}
  void in_plain_name(char c) {
    if (c == '{') {
      std::string_view head = string_;
      const size_t mark = head.find('[');
      const std::string_view name = without_blanks(head.substr(0, mark));
      const bool whole = mark == head.npos || without_blanks(head).ends_with("[ARGS]");
      key_ = Key::kArguments;
      if (!whole || !accept(std::string(name))) return fail(c);
      start_value(c);
      return;
    }
    if (held_.size() > kMaxName) return fail(c);
    held_ += c;
    string_ += c;
  }

  void at_end(char c) {
    held_ += c;
    end_mark_ += c;
    const int match = match_word(end_mark_, {format_.end});
    if (match >= 0) return leave();
    if (match == kPart) return;
    text(std::exchange(held_, {}));
    state_ = State::kText;
  }

  void open_object() {
    state_ = State::kFirstMember;
    depth_ = 1;
    plain_name_ = false;
    name_.reset();
    early_arguments_.clear();
    has_arguments_ = false;
  }

  // A byte of an object: what it means, and, until the call has come out, kept for the case that
  // it never will.
  void in_object(char c) {
    const bool kept = !in_call();
    if (kept && held_.size() > (state_ == State::kArguments ? kMaxHeld : kMaxHead)) return fail(c);
    if (member(c)) {
      if (kept && !in_call()) held_ += c;
      return;
    }
    if (kept) return fail(c);
    broken(c);
  }

  // False: `c` cannot stand here.
  bool member(char c) {
    switch (state_) {
      case State::kFirstMember:
      case State::kMember:
        if (is_blank(c)) return true;
        if (c == '}' && state_ == State::kFirstMember) return close_object();
        if (c != '"') return false;
        return start_string(State::kKey);
      case State::kKey:
        if (!string_byte(c)) return string_.size() <= kMaxHeld;
        return take_key();
      case State::kColon:
        if (c == ':') state_ = State::kValue;
        return c == ':' || is_blank(c);
      case State::kValue: return is_blank(c) || start_value(c);
      case State::kName:
        if (!string_byte(c)) return true;
        return take_name();
      case State::kSkipped: return skip(c);
      case State::kArguments: return argument(c);
      case State::kQuoted:
        if (!string_byte(c) && string_.size() <= kMaxHeld) return true;
        return take_quoted();
      default: return after_member(c);
    }
  }

  bool start_string(State next) {
    string_ = "\"";
    escaped_ = false;
    state_ = next;
    return true;
  }

  // True with the closing quote.
  bool string_byte(char c) {
    string_ += c;
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else {
      return c == '"';
    }
    return false;
  }

  bool take_key() {
    std::string key;
    if (!decode_json_string(string_, &key)) return false;
    state_ = State::kColon;
    if (format_.name_is_key && !name_) {
      key_ = Key::kArguments;
      return accept(std::move(key));
    }
    if (bare_ && !name_ && !has_arguments_ && !begins_call(key)) return false;
    key_ = key_of(key);
    return true;
  }

  bool start_value(char c) {
    if (key_ == Key::kFunction && c == '{' && depth_ == 1) {
      depth_ = 2;
      state_ = State::kFirstMember;
      return true;
    }
    if ((key_ == Key::kName || key_ == Key::kFunction) && c == '"' && !name_) {
      return start_string(State::kName);
    }
    if (key_ == Key::kArguments && !has_arguments_) {
      has_arguments_ = true;
      json_ = JsonScanner();
      if (c == '"') return start_string(State::kQuoted);
      null_ = c == 'n';
      string_.clear();
      state_ = State::kArguments;
      return argument(c);
    }
    json_ = JsonScanner();
    state_ = State::kSkipped;
    return skip(c);
  }

  bool take_name() {
    std::string name;
    state_ = State::kAfterMember;
    return decode_json_string(string_, &name) && accept(std::move(name));
  }

  bool accept(std::string name) {
    if (!known(name)) return false;
    name_ = std::move(name);
    begin_call(*name_);
    held_.clear();
    arguments(std::exchange(early_arguments_, {}));
    return true;
  }

  void put(std::string_view piece) {
    if (in_call()) {
      arguments(piece);
    } else {
      early_arguments_ += piece;
    }
  }

  bool skip(char c) {
    std::string ignored;
    const Step step = json_.step(c, &ignored);
    if (step == Step::kDone) state_ = State::kAfterMember;
    if (step == Step::kDoneBefore) return after_member(c);
    return step != Step::kBad;
  }

  bool argument(char c) {
    std::string piece;
    const Step step = json_.step(c, &piece);
    if (null_) {  // stands for no arguments
      string_ += piece;
      if (step == Step::kDone) put("{}");
      if (step == Step::kBad) put(string_);
    } else {
      put(piece);
    }
    if (step == Step::kDone) state_ = State::kAfterMember;
    if (step == Step::kDone && plain_name_) close_call();
    if (step == Step::kDoneBefore) return after_member(c);
    return step != Step::kBad;
  }

  bool take_quoted() {
    std::string decoded;
    if (!decode_json_string(string_, &decoded)) {
      string_.pop_back();  // it comes again, as a byte of the rest
      return false;
    }
    state_ = State::kAfterMember;
    // A string that is no JSON within is the value itself; an empty one stands for no arguments.
    if (decoded.find_first_not_of(" \t\r\n") == std::string::npos) decoded = "{}";
    put(json_kind(decoded) == JsonKind::kNone ? string_ : decoded);
    return true;
  }

  bool after_member(char c) {
    state_ = State::kAfterMember;
    if (is_blank(c)) return true;
    if (c == ',') {
      state_ = State::kMember;
      return true;
    }
    return c == '}' && close_object();
  }

  bool close_object() {
    if (depth_ == 2) {
      depth_ = 1;
      state_ = State::kAfterMember;
      return true;
    }
    if (!name_) return false;
    if (!has_arguments_) arguments("{}");
    close_call();
    return true;
  }

  void close_call() {
    end_call(true);
    held_.clear();
    ++calls_in_block_;
    state_ = State::kBlock;
  }

  // After the call came out: a brace that is missing is forgiven, arguments go on as they are.
  void broken(char c) {
    const bool marked = !format_.end.empty() && !bare_;
    if (state_ == State::kAfterMember && has_arguments_ && marked && c == format_.end[0]) {
      close_call();
      return in_block(c);
    }
    if (!marked || !has_arguments_ || state_ == State::kAfterMember) {
      end_call(state_ == State::kAfterMember && has_arguments_);
      return fail(c);
    }
    if (state_ == State::kQuoted) arguments(std::exchange(string_, {}));
    rest_ = WordScanner({format_.end});
    state_ = State::kRest;
    in_rest(c);
  }

  void in_rest(char c) {
    std::string passed;
    const int word = rest_.step(c, &passed);
    arguments(passed);
    if (word < 0) return;
    end_call(false);
    leave();
  }

  const JsonFormat format_;
  WordScanner scanner_, rest_;
  State state_ = State::kText;
  bool at_begin_ = true, bare_ = false, list_ = false;
  int calls_in_block_ = 0;
  std::string held_;      // the block so far, as far as no call came out of it
  std::string end_mark_;  // what has come of the closing mark

  // The object that is being read.
  bool plain_name_ = false;  // it has none: the name stands before
  int depth_ = 1;            // 2 within {"function": {…}}
  Key key_ = Key::kOther;
  std::optional<std::string> name_;
  std::string string_;  // a key or a short value, with its quote
  bool escaped_ = false;
  JsonScanner json_;
  std::string early_arguments_;  // came before the name
  bool has_arguments_ = false, null_ = false;
};

}  // namespace

std::unique_ptr<ToolCallParser> make_json_calls(JsonFormat format,
                                                std::shared_ptr<const ToolSet> tools) {
  return std::make_unique<JsonCalls>(std::move(format), std::move(tools));
}

}  // namespace quern::text
