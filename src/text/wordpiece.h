// The WordPiece model: the longest token that a word begins with, then again for the rest with
// tokens that go on a word. Immutable; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/trie.h"
#include "text/vocabulary.h"

namespace quern::text {

struct WordPieceOptions {
  std::string prefix = "##";     // of tokens that go on a word
  std::int32_t unk_id = -1;      // for a word that cannot be cut
  std::int64_t max_chars = 100;  // a longer word is unknown
};

class WordPiece {
 public:
  // Throws: kTokenizerInvalid where unk_id has no token.
  WordPiece(const Vocabulary& vocabulary, WordPieceOptions options);

  // Appends the ids of a word. Requires: word is valid UTF-8. Cost: O(n · longest token).
  void encode(std::string_view word, std::vector<std::int32_t>& ids) const;

 private:
  WordPieceOptions options_;
  Trie trie_;
  std::uint32_t inside_ = Trie::kRoot;  // the node behind the prefix
};

}  // namespace quern::text
