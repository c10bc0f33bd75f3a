#include "text/regex_dialect.h"

#include <unicode/uchar.h>

#include "base/error.h"
#include "base/errors/text.h"

namespace quern::text {
namespace {

constexpr std::string_view kSpaces =
    R"(\t-\r\x{20}\x{85}\x{A0}\x{1680}\x{2000}-\x{200A}\x{2028}\x{2029}\x{202F}\x{205F}\x{3000})";
// Letters that mean the same after a backslash in both dialects.
constexpr std::string_view kCommonEscapes = "pPdDwWrntfbBxsS";

class Translator {
 public:
  Translator(std::string_view pattern, std::string_view origin)
      : pattern_(pattern), origin_(origin) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        class_member(c);
      } else {
        if (c == '[') open_class();
        if (c == '(') check_group();
        if (!in_class_) take(1);
      }
    }
    return std::move(out_);
  }

 private:
  static bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }

  [[noreturn]] void refuse(std::string_view construct) const {
    throw Error(errors::kTokenizerUnsupported,
                {{"component", "A split pattern"},
                 {"origin", origin_},
                 {"value", fmt::format("one with {}", construct)},
                 {"allowed", "patterns that Oniguruma and PCRE2 read alike"}});
  }

  void take(std::size_t count) {
    out_ += pattern_.substr(at_, count);
    at_ += count;
  }

  void escape() {
    if (at_ + 1 == pattern_.size()) refuse("a backslash at its end");
    const char letter = pattern_[at_ + 1];
    if (is_word(letter) && kCommonEscapes.find(letter) == std::string_view::npos) {
      refuse(fmt::format("\\{}", letter));
    }
    if (letter == 's') {
      out_ += in_class_ ? std::string(kSpaces) : fmt::format("[{}]", kSpaces);
      at_ += 2;
    } else if (letter == 'S' && !in_class_) {
      out_ += fmt::format("[^{}]", kSpaces);
      at_ += 2;
    } else if ((letter == 'p' || letter == 'P') && pattern_.substr(at_ + 2, 1) == "{") {
      property(letter);
    } else {
      take(2);
    }
  }

  // A script's name alone means its characters there, and here those that are used with it too.
  void property(char letter) {
    const std::size_t end = pattern_.find('}', at_);
    if (end == std::string_view::npos) refuse("\\p{ without an end");
    std::string name(pattern_.substr(at_ + 3, end - at_ - 3));
    const bool inverse = name.starts_with('^');
    if (inverse) name.erase(0, 1);
    if (u_getPropertyValueEnum(UCHAR_SCRIPT, name.c_str()) == UCHAR_INVALID_CODE) {
      take(end + 1 - at_);
      return;
    }
    if (inverse) letter = letter == 'p' ? 'P' : 'p';
    out_ += fmt::format("\\{}{{sc:{}}}", letter, name);
    at_ = end + 1;
  }

  void open_class() {
    in_class_ = true;
    take(1);
    if (at_ < pattern_.size() && pattern_[at_] == '^') take(1);
    if (at_ < pattern_.size() && pattern_[at_] == ']') refuse("a class that begins with ]");
  }

  void class_member(char c) {
    if (c == '[') refuse("a class inside a class");
    if (pattern_.substr(at_, 2) == "&&") refuse("&& in a class");
    if (c == ']') in_class_ = false;
    take(1);
  }

  // Ruby's option letters differ from Perl's, but for i; of the (?…) forms the plain ones agree.
  void check_group() {
    const std::string_view rest = pattern_.substr(at_);
    if (rest.substr(0, 2) == "(*") refuse("(*");
    if (rest.substr(0, 2) != "(?") return;
    for (const std::string_view form :
         {"(?:", "(?=", "(?!", "(?>", "(?<=", "(?<!", "(?i:", "(?i)"}) {
      if (rest.starts_with(form)) return;
    }
    refuse(rest.substr(0, 4));
  }

  std::string_view pattern_, origin_;
  std::size_t at_ = 0;
  bool in_class_ = false;
  std::string out_;
};

}  // namespace

std::string to_pcre_pattern(std::string_view pattern, std::string_view origin) {
  return Translator(pattern, origin).run();
}

}  // namespace quern::text
