#include "text/charsmap.h"

#include <cstring>

#include "base/error.h"
#include "base/errors/text.h"

namespace quern::text {
namespace {

std::size_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200u) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view blob, std::string_view origin) {
  if (blob.empty()) return;
  const auto fail = [&](std::string_view what) {
    throw Error(errors::kTokenizerInvalid,
                {{"origin", origin}, {"what", fmt::format("the charsmap {}", what)}});
  };
  std::uint32_t size = 0;
  if (blob.size() < sizeof size) fail("is shorter than its header");
  std::memcpy(&size, blob.data(), sizeof size);
  blob.remove_prefix(sizeof size);
  if (size == 0 || size % 4 != 0 || size > blob.size()) fail("has a trie that does not fit");
  trie_.resize(size / 4);
  std::memcpy(trie_.data(), blob.data(), size);
  texts_ = blob.substr(size);
  if (texts_.empty() || texts_.back() != '\0') fail("has a text without an end");
}

std::optional<Charsmap::Match> Charsmap::match(std::string_view text, bool longest) const {
  std::optional<Match> found;
  if (trie_.empty()) return found;
  std::size_t node = offset_of(trie_[0]);
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<std::uint8_t>(text[i]);
    node ^= byte;
    if (byte == 0 || node >= trie_.size()) break;
    const std::uint32_t unit = trie_[node];
    if ((unit & 0x800000FFu) != byte) break;
    node ^= offset_of(unit);
    if ((unit & 0x100u) == 0) continue;
    if (node >= trie_.size()) break;
    const std::size_t value = trie_[node] & 0x7FFFFFFFu;
    if (value >= texts_.size()) break;
    found = Match{i + 1, texts_.c_str() + value};
    if (!longest) break;
  }
  return found;
}

}  // namespace quern::text
