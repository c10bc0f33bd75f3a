// One Python literal that comes byte by byte, written as JSON while it comes: strings of every kind
// but f-strings and bytes, numbers, True, False, None (and JSON's words for them), lists, tuples
// and dicts. Used by the parser of pythonic tool calls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace quern::text {

class PythonValue {
 public:
  static constexpr size_t kMaxDepth = 256;
  static constexpr size_t kMaxToken = 512;  // of a number or a word

  enum class Step {
    kInside,      // the value goes on, or has not begun (blanks)
    kDone,        // `c` was its last byte
    kDoneBefore,  // it ended before `c`
    kBad,         // `c` cannot stand here
  };
  // Takes the next byte and appends to `json` what is certain now.
  Step step(char c, std::string* json);

 private:
  enum class State {
    kValue,      // a value, or the end of a container that takes one
    kToken,      // a number, a word or the letter before a string
    kQuote,      // one quote has come, of one or three
    kTwoQuotes,  // two: an empty string, or the third follows
    kString,
    kEscape,
    kCode,  // digits of an escape
    kColon,
    kAfter,  // a value ended within a container
  };
  struct Container {
    char close;
    int items = 0;
  };

  Step value(char c, std::string* json);
  Step open(char c, std::string* json);
  Step closed();
  Step after(char c, std::string* json);
  Step again(char c, std::string* json);  // a value ended just before `c`
  Step token(char c, std::string* json);
  Step in_string(char c, std::string* json);
  Step escape(char c, std::string* json);
  void begin_item(std::string* json);
  void end_code(std::string* json);
  bool at_key() const;

  State state_ = State::kValue;
  std::vector<Container> open_;
  bool has_key_ = false;  // in the innermost dict, a key has come and its value has not
  std::string token_;
  char quote_ = '"';
  bool triple_ = false, raw_ = false;
  int quotes_ = 0;  // of a closing triple, so far
  int base_ = 16, digits_ = 0;
  std::uint32_t code_ = 0;
};

}  // namespace quern::text
