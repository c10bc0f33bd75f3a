#include "text/jinja/position.h"

#include <algorithm>

#include "text/jinja/unicode.h"

namespace quern::text::jinja {
namespace {

constexpr std::size_t kMaxExcerpt = 96;  // bytes of a line

// `at`, moved back to where a character begins.
std::size_t char_begin(std::string_view text, std::size_t at) {
  for (int i = 0; i < 3 && at > 0 && at < text.size() && (text[at] & 0xC0) == 0x80; ++i) --at;
  return at;
}

}  // namespace

Position position_of(std::string_view source, std::uint32_t at) {
  const std::string_view before = source.substr(0, std::min<std::size_t>(at, source.size()));
  const std::size_t line_begin = before.rfind('\n') + 1;  // npos + 1 is 0
  return {static_cast<std::size_t>(std::count(before.begin(), before.end(), '\n')) + 1,
          count_chars(before.substr(line_begin)) + 1};
}

std::string excerpt(std::string_view source, std::uint32_t at) {
  const std::size_t place = std::min<std::size_t>(at, source.size());
  std::size_t begin = source.substr(0, place).rfind('\n') + 1;
  std::size_t end = std::min(source.find('\n', place), source.size());
  if (place - begin > kMaxExcerpt / 2) begin = char_begin(source, place - kMaxExcerpt / 2);
  if (end - begin > kMaxExcerpt) end = char_begin(source, begin + kMaxExcerpt);
  const std::string_view before = source.substr(begin, place - begin);
  std::string text(source.substr(begin, end - begin));
  text += '\n';
  for (std::size_t i = 0; i < before.size(); i += char_at(before, i).size) {
    text += before[i] == '\t' ? '\t' : ' ';
  }
  return text + '^';
}

void fail_at(ErrorId id, std::string_view source, std::uint32_t at, std::string_view reason) {
  const Position position = position_of(source, at);
  throw Error(id, {{"reason", reason},
                   {"line", position.line},
                   {"column", position.column},
                   {"param", "messages"},
                   {"hint", excerpt(source, at)}});
}

}  // namespace quern::text::jinja
