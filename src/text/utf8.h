// UTF-8 as decoders read it: one well-formed character, or one maximal sequence that cannot become
// one (Unicode's "maximal subpart", which WHATWG and Python replace by a single U+FFFD).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace quern::text {

inline constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

enum class Utf8Kind {
  kValid,
  kInvalid,  // can never become a character
  kCut,      // the text ends inside what may still become a character
};

struct Utf8Step {
  std::size_t length;  // 1 … 4 bytes
  Utf8Kind kind;
};

// The first step of `text`. Requires: text is not empty.
Utf8Step utf8_step(std::string_view text);

// The character at `text[at]`, moving `at` behind it. Requires: text is valid UTF-8, at < size.
char32_t next_char(std::string_view text, std::size_t& at);
void append_utf8(char32_t code, std::string& out);
// `text` with U+FFFD for each maximal bad sequence.
std::string replace_invalid(std::string_view text);

}  // namespace quern::text
