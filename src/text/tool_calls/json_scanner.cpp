#include "text/tool_calls/json_scanner.h"

#include <fmt/format.h>
#include <simdjson.h>

namespace quern::text {
namespace {

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

}  // namespace

JsonScanner::Step JsonScanner::closed() {
  if (stack_.empty()) return Step::kDone;
  state_ = State::kAfter;
  return Step::kInside;
}

JsonScanner::Step JsonScanner::value(char c) {
  key_ = false;
  switch (c) {
    case '{':
    case '[':
      if (stack_.size() >= kMaxDepth) return Step::kBad;
      stack_ += c;
      state_ = c == '{' ? State::kFirstKey : State::kFirstValue;
      break;
    case '"': state_ = State::kString; break;
    case '-': state_ = State::kMinus; break;
    case '0': state_ = State::kZero; break;
    case 't': literal_ = "rue"; break;
    case 'f': literal_ = "alse"; break;
    case 'n': literal_ = "ull"; break;
    default:
      if (!is_digit(c)) return Step::kBad;
      state_ = State::kDigits;
  }
  if (c == 't' || c == 'f' || c == 'n') state_ = State::kLiteral;
  return Step::kInside;
}

JsonScanner::Step JsonScanner::within_string(char c, std::string* out) {
  if (state_ == State::kHex) {
    if (!is_hex(c)) return Step::kBad;
    if (--hex_ == 0) state_ = State::kString;
  } else if (state_ == State::kEscape) {
    if (c == 'u') {
      state_ = State::kHex;
      hex_ = 4;
    } else if (std::string_view("\"\\/bfnrt").find(c) == std::string_view::npos) {
      return Step::kBad;
    } else {
      state_ = State::kString;
    }
  } else if (c == '\\') {
    state_ = State::kEscape;
  } else if (c == '"') {
    *out += c;
    if (!key_) return closed();
    state_ = State::kColon;
    return Step::kInside;
  } else if (static_cast<unsigned char>(c) < 0x20) {
    append_json_escaped({&c, 1}, out);
    return Step::kInside;
  }
  *out += c;
  return Step::kInside;
}

JsonScanner::Step JsonScanner::after_number(char c) {
  if (stack_.empty()) return Step::kDoneBefore;
  state_ = State::kAfter;
  std::string ignored;
  return step(c, &ignored);
}

JsonScanner::Step JsonScanner::number(char c) {
  const auto go = [this](State next) {
    state_ = next;
    return Step::kInside;
  };
  const bool exponent = c == 'e' || c == 'E';
  switch (state_) {
    case State::kMinus:
      if (c == '0') return go(State::kZero);
      return is_digit(c) ? go(State::kDigits) : Step::kBad;
    case State::kZero:
    case State::kDigits:
      if (is_digit(c)) return state_ == State::kDigits ? Step::kInside : Step::kBad;
      if (c == '.') return go(State::kPoint);
      return exponent ? go(State::kExponent) : after_number(c);
    case State::kPoint: return is_digit(c) ? go(State::kFraction) : Step::kBad;
    case State::kFraction:
      if (is_digit(c)) return Step::kInside;
      return exponent ? go(State::kExponent) : after_number(c);
    case State::kExponent:
      if (c == '+' || c == '-') return go(State::kExponentSign);
      return is_digit(c) ? go(State::kExponentDigits) : Step::kBad;
    case State::kExponentSign: return is_digit(c) ? go(State::kExponentDigits) : Step::kBad;
    default: return is_digit(c) ? Step::kInside : after_number(c);
  }
}

JsonScanner::Step JsonScanner::step(char c, std::string* out) {
  if (state_ == State::kString || state_ == State::kEscape || state_ == State::kHex) {
    return within_string(c, out);
  }
  Step result = Step::kBad;
  if (state_ == State::kLiteral) {
    if (c != *literal_) return Step::kBad;
    result = *++literal_ == '\0' ? closed() : Step::kInside;
  } else if (state_ >= State::kMinus && state_ <= State::kExponentDigits) {
    result = number(c);
  } else if (is_blank(c)) {
    result = Step::kInside;
  } else if (state_ == State::kValue) {
    result = value(c);
  } else if (state_ == State::kColon) {
    if (c != ':') return Step::kBad;
    state_ = State::kValue;
    result = Step::kInside;
  } else if (state_ == State::kAfter && c == ',') {
    state_ = stack_.back() == '{' ? State::kKey : State::kValue;
    result = Step::kInside;
  } else if ((c == '}' && stack_.back() == '{' &&
              (state_ == State::kFirstKey || state_ == State::kAfter)) ||
             (c == ']' && stack_.back() == '[' &&
              (state_ == State::kFirstValue || state_ == State::kAfter))) {
    stack_.pop_back();
    result = closed();
  } else if (c == '"' && (state_ == State::kFirstKey || state_ == State::kKey)) {
    state_ = State::kString;
    key_ = true;
    result = Step::kInside;
  } else if (state_ == State::kFirstValue) {
    result = value(c);
  }
  if (result == Step::kInside || result == Step::kDone) *out += c;
  return result;
}

bool JsonScanner::ends_here() const {
  return stack_.empty() && (state_ == State::kZero || state_ == State::kDigits ||
                            state_ == State::kFraction || state_ == State::kExponentDigits);
}

bool decode_json_string(std::string_view quoted, std::string* text) {
  simdjson::dom::parser parser;
  std::string_view decoded;
  if (parser.parse(quoted.data(), quoted.size()).get(decoded) != simdjson::SUCCESS) return false;
  text->assign(decoded);
  return true;
}

void append_json_escaped(std::string_view text, std::string* json) {
  for (const char c : text) {
    switch (c) {
      case '"': *json += "\\\""; break;
      case '\\': *json += "\\\\"; break;
      case '\n': *json += "\\n"; break;
      case '\r': *json += "\\r"; break;
      case '\t': *json += "\\t"; break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          *json += fmt::format("\\u{:04x}", static_cast<unsigned char>(c));
        } else {
          *json += c;
        }
    }
  }
}

std::string json_quoted(std::string_view text) {
  std::string json = "\"";
  append_json_escaped(text, &json);
  return json + '"';
}

JsonKind json_kind(std::string_view text) {
  if (text.empty()) return JsonKind::kNone;
  JsonScanner scanner;
  std::string ignored;
  JsonScanner::Step step = JsonScanner::Step::kInside;
  size_t at = 0;
  while (at < text.size() && step == JsonScanner::Step::kInside) {
    // A control character within a string is no JSON, however readily it could be mended.
    const size_t before = ignored.size();
    step = scanner.step(text[at++], &ignored);
    if (ignored.size() > before + 1) return JsonKind::kNone;
  }
  if (step == JsonScanner::Step::kDoneBefore) --at;
  const bool whole = step == JsonScanner::Step::kDone || step == JsonScanner::Step::kDoneBefore ||
                     (step == JsonScanner::Step::kInside && scanner.ends_here());
  if (!whole) return JsonKind::kNone;
  for (; at < text.size(); ++at) {
    if (!is_blank(text[at])) return JsonKind::kNone;
  }
  switch (text[text.find_first_not_of(" \t\r\n")]) {
    case '"': return JsonKind::kString;
    case '{': return JsonKind::kObject;
    case '[': return JsonKind::kArray;
    case 't':
    case 'f': return JsonKind::kBoolean;
    case 'n': return JsonKind::kNull;
    default: return text.find_first_of(".eE") == text.npos ? JsonKind::kInteger : JsonKind::kNumber;
  }
}

}  // namespace quern::text
