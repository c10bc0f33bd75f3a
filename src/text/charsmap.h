// SentencePiece's "precompiled charsmap": a table that replaces short sequences of characters, kept
// as a double-array trie over UTF-8 and the texts that its values point to. It is outside data:
// every step through the trie is checked. Immutable; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::text {

class Charsmap {
 public:
  Charsmap() = default;  // replaces nothing
  // `blob`: u32 size of the trie in bytes, the trie, the texts, each ended by NUL. Throws:
  // kTokenizerInvalid; `origin` is for the message.
  Charsmap(std::string_view blob, std::string_view origin);

  bool empty() const { return trie_.empty(); }

  struct Match {
    std::size_t length;     // bytes of the key
    std::string_view text;  // what stands for it
  };
  // The shortest or the longest key that `text` begins with.
  std::optional<Match> match(std::string_view text, bool longest) const;

 private:
  std::vector<std::uint32_t> trie_;
  std::string texts_;
};

}  // namespace quern::text
