#include "text/unicode.h"

#include <unicode/brkiter.h>
#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/uchar.h>
#include <unicode/utext.h>

#include <memory>

#include "base/error.h"
#include "base/errors/base.h"
#include "text/utf8.h"

namespace quern::text {
namespace {

// ICU takes 32-bit lengths; parts end in front of a character that nothing joins to.
constexpr std::size_t kPart = std::size_t{1} << 28;

void check(UErrorCode code, std::size_t bytes) {
  if (U_SUCCESS(code)) return;
  throw Error(errors::kOutOfMemory, {{"what", "Unicode normalization"}, {"bytes", bytes}});
}

const icu::Normalizer2& normalizer(UnicodeForm form) {
  UErrorCode code = U_ZERO_ERROR;
  const icu::Normalizer2* found = nullptr;
  switch (form) {
    case UnicodeForm::kNfc: found = icu::Normalizer2::getNFCInstance(code); break;
    case UnicodeForm::kNfd: found = icu::Normalizer2::getNFDInstance(code); break;
    case UnicodeForm::kNfkc: found = icu::Normalizer2::getNFKCInstance(code); break;
    case UnicodeForm::kNfkd: found = icu::Normalizer2::getNFKDInstance(code); break;
  }
  check(code, 0);
  return *found;
}

icu::StringPiece piece(std::string_view text) {
  return {text.data(), static_cast<std::int32_t>(text.size())};
}

bool in(char32_t code, std::uint32_t mask) {
  return (U_MASK(u_charType(static_cast<UChar32>(code))) & mask) != 0;
}

bool is_ascii(char c) { return static_cast<unsigned char>(c) < 0x80; }

// Appends the ends of the clusters of text[begin, end).
void cut(icu::BreakIterator& iterator, std::string_view text, std::size_t begin, std::size_t end,
         std::vector<std::size_t>& ends) {
  UErrorCode code = U_ZERO_ERROR;
  UText* view =
      utext_openUTF8(nullptr, text.data() + begin, static_cast<std::int64_t>(end - begin), &code);
  check(code, end - begin);
  iterator.setText(view, code);
  utext_close(view);  // the iterator keeps a clone
  check(code, end - begin);
  iterator.first();
  for (std::int32_t at = iterator.next(); at != icu::BreakIterator::DONE; at = iterator.next()) {
    ends.push_back(begin + static_cast<std::size_t>(at));
  }
}

}  // namespace

std::string to_form(std::string_view text, UnicodeForm form) {
  const icu::Normalizer2& normal = normalizer(form);
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    std::size_t size = text.size();
    if (size > kPart) {
      size = kPart;
      while (size > 0 && !(is_ascii(text[size]) && is_ascii(text[size - 1]))) --size;
      if (size == 0) size = std::min(text.size(), std::size_t{1} << 30);
    }
    UErrorCode code = U_ZERO_ERROR;
    icu::StringByteSink<std::string> sink(&out);
    normal.normalizeUTF8(0, piece(text.substr(0, size)), sink, nullptr, code);
    check(code, text.size());
    text.remove_prefix(size);
  }
  return out;
}

bool is_white_space(char32_t code) { return u_isUWhiteSpace(static_cast<UChar32>(code)); }
bool is_punctuation(char32_t code) { return in(code, U_GC_P_MASK); }
bool is_mark(char32_t code) { return in(code, U_GC_M_MASK); }
bool is_nonspacing_mark(char32_t code) { return in(code, U_GC_MN_MASK); }
bool is_other(char32_t code) { return in(code, U_GC_CC_MASK | U_GC_CF_MASK | U_GC_CO_MASK); }

void append_lowercase(char32_t code, std::string& out) {
  if (code == 0x130) {  // the only character whose lower-case form has two
    out += "i\xCC\x87";
    return;
  }
  append_utf8(static_cast<char32_t>(u_tolower(static_cast<UChar32>(code))), out);
}

std::vector<std::size_t> grapheme_ends(std::string_view text) {
  std::vector<std::size_t> ends;
  std::unique_ptr<icu::BreakIterator> iterator;
  std::size_t begin = 0;
  while (begin < text.size()) {
    // Between two ASCII characters there is a border, but for CR LF; only the rest needs rules.
    std::size_t end = begin + 1;
    bool plain = is_ascii(text[begin]) && text[begin] != '\r';
    if (!plain || (end < text.size() && !is_ascii(text[end]))) {
      plain = false;
      while (end < text.size() && !(is_ascii(text[end - 1]) && is_ascii(text[end]) &&
                                    !(text[end - 1] == '\r' && text[end] == '\n'))) {
        ++end;
      }
      if (iterator == nullptr) {
        UErrorCode code = U_ZERO_ERROR;
        iterator.reset(icu::BreakIterator::createCharacterInstance(icu::Locale::getRoot(), code));
        check(code, text.size());
      }
    }
    if (plain) {
      ends.push_back(end);
    } else {
      cut(*iterator, text, begin, end, ends);
    }
    begin = end;
  }
  return ends;
}

}  // namespace quern::text
