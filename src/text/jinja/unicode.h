// Characters of UTF-8 text as Python counts and classifies them. A byte that is part of no
// character counts as one of its own, so any bytes are safe here. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace quern::text::jinja {

struct Char {
  char32_t code;     // 0xDC00 + byte for a stray byte
  std::size_t size;  // bytes
};

// The character at `text[at]`. Requires: at < text.size().
Char char_at(std::string_view text, std::size_t at);
// The character that ends before `text[end]`. Requires: 0 < end <= text.size().
Char char_before(std::string_view text, std::size_t end);
void append_char(std::string& out, char32_t code);

bool is_ascii(std::string_view text);
std::size_t count_chars(std::string_view text);
// The byte where the character with this index begins; text.size() past the end.
std::size_t byte_of(std::string_view text, std::size_t index);

// Of one character, as str.isspace() and its like.
bool is_space(char32_t code);
bool is_alpha(char32_t code);
bool is_decimal(char32_t code);
bool is_digit(char32_t code);
bool is_numeric(char32_t code);
bool is_upper(char32_t code);
bool is_lower(char32_t code);
bool is_printable(char32_t code);
bool is_identifier(char32_t code);  // may stand in a name, but for the digits at its front

enum class Case { kUpper, kLower, kTitle };
// Appends the character in that case; it may become up to three.
void append_cased(std::string& out, char32_t code, Case wanted);

// `text` without the white space at its front or end.
std::string_view strip_front(std::string_view text);
std::string_view strip_back(std::string_view text);

}  // namespace quern::text::jinja
