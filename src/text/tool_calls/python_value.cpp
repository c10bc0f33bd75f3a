#include "text/tool_calls/python_value.h"

#include <cstdint>
#include <optional>
#include <utility>

#include "text/tool_calls/call_stream.h"
#include "text/tool_calls/json_scanner.h"
#include "text/utf8.h"

namespace quern::text {
namespace {

bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

int digit_value(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 16;
}

void append_utf8(std::uint32_t code, std::string* out) {
  if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) {
    *out += kReplacement;
  } else if (code < 0x80) {
    *out += static_cast<char>(code);
  } else if (code < 0x800) {
    *out += static_cast<char>(0xC0 | code >> 6);
    *out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    *out += static_cast<char>(0xE0 | code >> 12);
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    *out += static_cast<char>(0xF0 | code >> 18);
    *out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    *out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    *out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

// 0x1F, 0o17 and 0b11 below 2^64.
std::optional<std::string> other_base(std::string_view digits) {
  const std::string_view prefix = digits.substr(0, 2);
  const int base = prefix == "0x" || prefix == "0X"   ? 16
                   : prefix == "0o" || prefix == "0O" ? 8
                   : prefix == "0b" || prefix == "0B" ? 2
                                                      : 0;
  if (base == 0 || digits.size() == 2) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : digits.substr(2)) {
    const int digit = digit_value(c);
    if (digit >= base || value > (UINT64_MAX - 15) / 16) return std::nullopt;
    value = value * static_cast<std::uint64_t>(base) + static_cast<std::uint64_t>(digit);
  }
  return std::to_string(value);
}

// A number or a word of Python as JSON; nothing where it is neither.
std::optional<std::string> token_json(std::string_view token) {
  if (token == "True" || token == "true") return "true";
  if (token == "False" || token == "false") return "false";
  if (token == "None" || token == "null") return "null";
  std::string number;
  for (size_t i = 0; i < token.size(); ++i) {
    if (token[i] != '_') {
      number += token[i];
    } else if (i == 0 || i + 1 == token.size() || digit_value(token[i - 1]) > 15 ||
               digit_value(token[i + 1]) > 15) {
      return std::nullopt;
    }
  }
  std::string sign;
  if (number.starts_with('+') || number.starts_with('-')) {
    if (number[0] == '-') sign = "-";
    number.erase(0, 1);
  }
  if (const auto value = other_base(number)) return sign + *value;
  // Python's .5, 5. and 007.
  const size_t digit = number.find_first_not_of('0');
  if (digit != number.npos && digit > 0 && number[digit] >= '0' && number[digit] <= '9') {
    number.erase(0, digit);
  }
  if (number.starts_with('.')) number.insert(0, "0");
  const size_t point = number.find('.');
  if (point != number.npos && (point + 1 == number.size() || digit_value(number[point + 1]) > 9)) {
    number.insert(point + 1, "0");
  }
  const JsonKind kind = json_kind(number);
  if (kind != JsonKind::kInteger && kind != JsonKind::kNumber) return std::nullopt;
  return sign + number;
}

}  // namespace

bool PythonValue::at_key() const {
  return !open_.empty() && open_.back().close == '}' && !has_key_;
}

void PythonValue::begin_item(std::string* json) {
  if (open_.empty()) return;
  if (open_.back().close == '}' && has_key_) return;
  if (open_.back().items++ > 0) *json += ", ";
}

PythonValue::Step PythonValue::closed() {
  if (open_.empty()) return Step::kDone;
  state_ = State::kAfter;
  if (open_.back().close != '}') return Step::kInside;
  has_key_ = !has_key_;
  if (has_key_) state_ = State::kColon;
  return Step::kInside;
}

PythonValue::Step PythonValue::open(char c, std::string* json) {
  if (open_.size() >= kMaxDepth || at_key()) return Step::kBad;
  begin_item(json);
  *json += c == '{' ? '{' : '[';
  // The value that a key waits for has begun; within it no key has come.
  open_.push_back({c == '{' ? '}' : c == '[' ? ']' : ')'});
  has_key_ = false;
  state_ = State::kValue;
  return Step::kInside;
}

PythonValue::Step PythonValue::value(char c, std::string* json) {
  if (c == '[' || c == '{' || c == '(') return open(c, json);
  if (!open_.empty() && c == open_.back().close) {
    return c == '}' && has_key_ ? Step::kBad : after(c, json);
  }
  if (c == '"' || c == '\'') {
    begin_item(json);
    *json += '"';
    quote_ = c;
    triple_ = raw_ = false;
    state_ = State::kQuote;
    return Step::kInside;
  }
  if (!is_word(c) && c != '-' && c != '+' && c != '.') return Step::kBad;
  token_ = c;
  state_ = State::kToken;
  return Step::kInside;
}

PythonValue::Step PythonValue::after(char c, std::string* json) {
  if (c == ',') {
    state_ = State::kValue;
    return Step::kInside;
  }
  if (c != open_.back().close) return Step::kBad;
  *json += c == '}' ? '}' : ']';
  open_.pop_back();
  // A container is no key, so where its parent is a dict, it is a value.
  has_key_ = !open_.empty() && open_.back().close == '}';
  return closed();
}

PythonValue::Step PythonValue::again(char c, std::string* json) {
  const Step step = closed();
  if (step == Step::kDone) return Step::kDoneBefore;
  return this->step(c, json);
}

PythonValue::Step PythonValue::token(char c, std::string* json) {
  if (is_word(c) || c == '.' || ((c == '-' || c == '+') && (token_.back() | 32) == 'e')) {
    token_ += c;
    return token_.size() > kMaxToken ? Step::kBad : Step::kInside;
  }
  if (c == '"' || c == '\'') {
    if (token_ != "r" && token_ != "R" && token_ != "u" && token_ != "U") return Step::kBad;
    const bool raw = (token_[0] | 32) == 'r';
    const Step step = value(c, json);
    raw_ = raw;
    return step;
  }
  const auto written = token_json(token_);
  if (!written) return Step::kBad;
  const bool key = at_key();
  begin_item(json);
  *json += key ? json_quoted(*written) : *written;
  return again(c, json);
}

void PythonValue::end_code(std::string* json) {
  std::string character;
  append_utf8(code_, &character);
  append_json_escaped(character, json);
  state_ = State::kString;
}

PythonValue::Step PythonValue::escape(char c, std::string* json) {
  constexpr std::string_view kPlain = "\\'\"abfnrtv", kMeant = "\\'\"\a\b\f\n\r\t\v";
  state_ = State::kString;
  if (raw_) {
    append_json_escaped("\\", json);
    append_json_escaped({&c, 1}, json);
    return Step::kInside;
  }
  if (const size_t at = kPlain.find(c); at != kPlain.npos) {
    append_json_escaped(kMeant.substr(at, 1), json);
  } else if (c == 'x' || c == 'u' || c == 'U' || (c >= '0' && c <= '7')) {
    state_ = State::kCode;
    base_ = digit_value(c) < 8 ? 8 : 16;
    digits_ = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 2;
    code_ = base_ == 8 ? static_cast<std::uint32_t>(digit_value(c)) : 0;
  } else if (c != '\n') {  // a line that goes on
    append_json_escaped("\\", json);
    append_json_escaped({&c, 1}, json);
  }
  return Step::kInside;
}

PythonValue::Step PythonValue::in_string(char c, std::string* json) {
  if (state_ == State::kCode) {
    const int digit = digit_value(c);
    if (digit < base_) {
      code_ = code_ * static_cast<std::uint32_t>(base_) + static_cast<std::uint32_t>(digit);
      if (--digits_ == 0) end_code(json);
      return Step::kInside;
    }
    if (base_ == 16) return Step::kBad;
    end_code(json);
  }
  if (state_ == State::kEscape) return escape(c, json);
  if (c == quote_) {
    if (!triple_ || ++quotes_ == 3) {
      *json += '"';
      return closed();
    }
    return Step::kInside;
  }
  append_json_escaped(std::string(static_cast<size_t>(std::exchange(quotes_, 0)), quote_), json);
  if (c == '\\') {
    state_ = State::kEscape;
  } else {
    append_json_escaped({&c, 1}, json);
  }
  return Step::kInside;
}

PythonValue::Step PythonValue::step(char c, std::string* json) {
  switch (state_) {
    case State::kQuote:
      if (c == quote_) {
        state_ = State::kTwoQuotes;
        return Step::kInside;
      }
      quotes_ = 0;
      state_ = State::kString;
      return in_string(c, json);
    case State::kTwoQuotes:
      if (c == quote_) {
        triple_ = true;
        quotes_ = 0;
        state_ = State::kString;
        return Step::kInside;
      }
      *json += '"';
      return again(c, json);
    case State::kString:
    case State::kEscape:
    case State::kCode: return in_string(c, json);
    case State::kToken: return token(c, json);
    default: break;
  }
  if (is_blank(c)) return Step::kInside;
  if (state_ == State::kValue) return value(c, json);
  if (state_ == State::kAfter) return after(c, json);
  if (c != ':') return Step::kBad;
  *json += ": ";
  state_ = State::kValue;
  return Step::kInside;
}

}  // namespace quern::text
