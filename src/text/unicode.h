// What normalizers and splits need of Unicode, by ICU: normal forms, classes of characters and
// grapheme clusters. Any thread.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace quern::text {

enum class UnicodeForm { kNfc, kNfd, kNfkc, kNfkd };

// `text` in that form. Requires: text is valid UTF-8. Cost: O(n).
std::string to_form(std::string_view text, UnicodeForm form);

bool is_white_space(char32_t code);      // the property White_Space
bool is_punctuation(char32_t code);      // general categories P?
bool is_mark(char32_t code);             // general categories M?
bool is_nonspacing_mark(char32_t code);  // general category Mn
bool is_other(char32_t code);            // general categories Cc, Cf, Co
// The lower-case form of one character without regard to what stands around it.
void append_lowercase(char32_t code, std::string& out);

// Where the grapheme clusters of `text` end, ascending. Requires: text is valid UTF-8.
std::vector<std::size_t> grapheme_ends(std::string_view text);

}  // namespace quern::text
