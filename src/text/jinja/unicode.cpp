#include "text/jinja/unicode.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "text/utf8.h"

namespace quern::text::jinja {
namespace {

struct CaseRange {
  char32_t first, last, stride;
  std::int32_t distance;
};

struct CaseExpansion {
  char32_t code;
  char32_t changed[3];
};

#include "text/jinja/case_tables.inc"

// A set of characters, written as the inside of a regular expression's brackets.
class CharSet {
 public:
  explicit CharSet(const char* members) {
    const std::string pattern = std::string("^[") + members + "]";
    int error = 0;
    PCRE2_SIZE at = 0;
    code_.reset(pcre2_compile(reinterpret_cast<PCRE2_SPTR>(pattern.data()), pattern.size(),
                              PCRE2_UTF, &error, &at, nullptr));
  }

  bool has(char32_t code) const {
    if (code >= 0xD800 && code < 0xE000) return false;
    std::string text;
    append_char(text, code);
    const std::unique_ptr<pcre2_match_data, decltype(&pcre2_match_data_free)> data(
        pcre2_match_data_create(1, nullptr), pcre2_match_data_free);
    return code_ && data &&
           pcre2_match(code_.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                       data.get(), nullptr) >= 0;
  }

 private:
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
  };
  std::unique_ptr<pcre2_code, Free> code_;
};

bool ascii_letter(char32_t code) { return (code | 32) >= 'a' && (code | 32) <= 'z'; }
bool ascii_digit(char32_t code) { return code >= '0' && code <= '9'; }

std::int32_t distance_of(const CaseRange* begin, const CaseRange* end, char32_t code) {
  const CaseRange* range = std::lower_bound(
      begin, end, code, [](const CaseRange& item, char32_t value) { return item.last < value; });
  if (range == end || code < range->first || (code - range->first) % range->stride != 0) return 0;
  return range->distance;
}

const CaseExpansion* expansion_of(const CaseExpansion* begin, const CaseExpansion* end,
                                  char32_t code) {
  const CaseExpansion* found =
      std::lower_bound(begin, end, code,
                       [](const CaseExpansion& item, char32_t value) { return item.code < value; });
  return found != end && found->code == code ? found : nullptr;
}

}  // namespace

Char char_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[at + i]); };
  if (byte(0) < 0x80) return {byte(0), 1};
  const Utf8Step step = utf8_step(text.substr(at));
  if (step.kind != Utf8Kind::kValid) return {0xDC00u + byte(0), 1};
  char32_t code = byte(0) & (0x7F >> step.length);
  for (std::size_t i = 1; i < step.length; ++i) code = code << 6 | (byte(i) & 0x3F);
  return {code, step.length};
}

Char char_before(std::string_view text, std::size_t end) {
  for (std::size_t size = 2; size <= std::min<std::size_t>(4, end); ++size) {
    if ((text[end - size + 1] & 0xC0) != 0x80) break;
    const Char found = char_at(text, end - size);
    if (found.size == size) return found;
  }
  return char_at(text.substr(0, end), end - 1);
}

void append_char(std::string& out, char32_t code) {
  if (code >= 0xD800 && code < 0xE000) {
    if (code >= 0xDC80 && code < 0xDD00) {
      out += static_cast<char>(code - 0xDC00);  // the stray byte that it was
    } else {
      out += kReplacement;
    }
  } else if (code < 0x80) {
    out += static_cast<char>(code);
  } else if (code < 0x800) {
    out += static_cast<char>(0xC0 | code >> 6);
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    out += static_cast<char>(0xE0 | code >> 12);
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  } else {
    out += static_cast<char>(0xF0 | code >> 18);
    out += static_cast<char>(0x80 | (code >> 12 & 0x3F));
    out += static_cast<char>(0x80 | (code >> 6 & 0x3F));
    out += static_cast<char>(0x80 | (code & 0x3F));
  }
}

bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return (c & 0x80) == 0; });
}

std::size_t count_chars(std::string_view text) {
  if (is_ascii(text)) return text.size();
  std::size_t count = 0;
  for (std::size_t at = 0; at < text.size(); at += char_at(text, at).size) ++count;
  return count;
}

std::size_t byte_of(std::string_view text, std::size_t index) {
  if (is_ascii(text)) return std::min(index, text.size());
  std::size_t at = 0;
  for (; index > 0 && at < text.size(); --index) at += char_at(text, at).size;
  return at;
}

bool is_space(char32_t code) {
  if (code < 0x80) return code == ' ' || (code >= 9 && code <= 13) || (code >= 28 && code <= 31);
  return code == 0x85 || code == 0xA0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200A) ||
         code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F || code == 0x3000;
}

bool is_alpha(char32_t code) {
  static const CharSet set("\\p{L}");
  return code < 0x80 ? ascii_letter(code) : set.has(code);
}

bool is_decimal(char32_t code) {
  static const CharSet set("\\p{Nd}");
  return code < 0x80 ? ascii_digit(code) : set.has(code);
}

bool is_digit(char32_t code) {
  static const CharSet set(
      "\\p{Nd}\\x{B2}\\x{B3}\\x{B9}\\x{2070}\\x{2074}-\\x{2079}\\x{2080}-\\x{2089}"
      "\\x{2460}-\\x{2468}\\x{2474}-\\x{247C}\\x{2488}-\\x{2490}");
  return code < 0x80 ? ascii_digit(code) : set.has(code);
}

bool is_numeric(char32_t code) {
  static const CharSet set(
      "\\p{N}\\x{4E00}\\x{4E8C}\\x{4E09}\\x{56DB}\\x{4E94}\\x{516D}\\x{4E03}"
      "\\x{516B}\\x{4E5D}\\x{5341}\\x{767E}\\x{5343}\\x{4E07}\\x{5104}");
  return code < 0x80 ? ascii_digit(code) : set.has(code);
}

bool is_upper(char32_t code) {
  static const CharSet set("\\p{Lu}\\x{2160}-\\x{216F}\\x{24B6}-\\x{24CF}");
  return code < 0x80 ? code >= 'A' && code <= 'Z' : set.has(code);
}

bool is_lower(char32_t code) {
  static const CharSet set("\\p{Ll}\\x{AA}\\x{BA}\\x{2170}-\\x{217F}\\x{24D0}-\\x{24E9}");
  return code < 0x80 ? code >= 'a' && code <= 'z' : set.has(code);
}

bool is_printable(char32_t code) {
  static const CharSet set("\\p{C}\\p{Z}");
  if (code < 0x80) return code >= 0x20 && code < 0x7F;
  return !(code >= 0xD800 && code < 0xE000) && !set.has(code);
}

bool is_identifier(char32_t code) {
  static const CharSet set("\\p{L}\\p{N}\\p{Mn}\\p{Mc}");
  return code < 0x80 ? ascii_letter(code) || ascii_digit(code) || code == '_' : set.has(code);
}

void append_cased(std::string& out, char32_t code, Case wanted) {
  if (code < 0x80) {
    const bool letter = ascii_letter(code);
    if (letter) code = wanted == Case::kLower ? code | 32 : code & ~U'\x20';
    out += static_cast<char>(code);
    return;
  }
  const CaseExpansion* expansion = nullptr;
  std::int32_t distance = 0;
  switch (wanted) {
    case Case::kUpper:
      expansion = expansion_of(std::begin(kUpperExpansions), std::end(kUpperExpansions), code);
      distance = distance_of(std::begin(kUpper), std::end(kUpper), code);
      break;
    case Case::kLower:
      expansion = expansion_of(std::begin(kLowerExpansions), std::end(kLowerExpansions), code);
      distance = distance_of(std::begin(kLower), std::end(kLower), code);
      break;
    case Case::kTitle:
      expansion = expansion_of(std::begin(kTitleExpansions), std::end(kTitleExpansions), code);
      distance = distance_of(std::begin(kTitle), std::end(kTitle), code);
      break;
  }
  if (expansion == nullptr) {
    append_char(out, static_cast<char32_t>(static_cast<std::int32_t>(code) + distance));
    return;
  }
  for (const char32_t part : expansion->changed) {
    if (part != 0) append_char(out, part);
  }
}

std::string_view strip_front(std::string_view text) {
  while (!text.empty()) {
    const Char first = char_at(text, 0);
    if (!is_space(first.code)) break;
    text.remove_prefix(first.size);
  }
  return text;
}

std::string_view strip_back(std::string_view text) {
  while (!text.empty()) {
    const Char last = char_before(text, text.size());
    if (!is_space(last.code)) break;
    text.remove_suffix(last.size);
  }
  return text;
}

}  // namespace quern::text::jinja
