// One JSON value that comes byte by byte: where it ends, and whether it is well formed. Used by the
// parsers of tool calls, which pass a model's arguments on while it still writes them.
#pragma once

#include <string>

namespace quern::text {

class JsonScanner {
 public:
  static constexpr int kMaxDepth = 256;

  enum class Step {
    kInside,      // the value goes on
    kDone,        // `c` was its last byte
    kDoneBefore,  // it ended before `c` (a number)
    kBad,         // `c` cannot stand here
  };

  // Takes the next byte; at first white space is taken too. What is to be written for `c` is
  // appended to `out`: the byte, or an escape for a control character within a string, which models
  // write and JSON forbids. Nothing is appended for kDoneBefore and kBad.
  Step step(char c, std::string* out);
  // The text ended: whether the value is whole as it stands (a number).
  bool ends_here() const;
  // Nothing but white space has come.
  bool empty() const { return state_ == State::kValue && stack_.empty(); }

 private:
  enum class State {
    kValue,
    kFirstKey,    // after '{'
    kFirstValue,  // after '['
    kKey,         // after ',' in an object
    kColon,
    kAfter,  // after a value within a container
    kString,
    kEscape,
    kHex,
    kMinus,
    kZero,
    kDigits,
    kPoint,
    kFraction,
    kExponent,
    kExponentSign,
    kExponentDigits,
    kLiteral,
  };

  Step value(char c);
  Step closed();
  Step number(char c);
  Step within_string(char c, std::string* out);
  Step after_number(char c);

  State state_ = State::kValue;
  std::string stack_;  // the open containers: '{' or '['
  bool key_ = false;   // the string is a member's name
  int hex_ = 0;        // digits of \u to come
  const char* literal_ = "";
};

// The text of a JSON string, quotes included; false where it is none.
bool decode_json_string(std::string_view quoted, std::string* text);
// `text` as it stands within a JSON string, without the quotes.
void append_json_escaped(std::string_view text, std::string* json);
std::string json_quoted(std::string_view text);

enum class JsonKind { kNone, kString, kInteger, kNumber, kBoolean, kNull, kObject, kArray };
// What `text` is when it is one JSON value and nothing else; kNone where it is not.
JsonKind json_kind(std::string_view text);

}  // namespace quern::text
