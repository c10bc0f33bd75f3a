// The Unigram model: of all ways to cut a word into tokens, the one whose scores sum to the most
// (Viterbi over a trie). Cost: O(n · longest token). Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/trie.h"
#include "text/vocabulary.h"

namespace quern::text {

struct UnigramOptions {
  std::int32_t unk_id = -1;    // -1: a word with unknown characters loses them
  bool byte_fallback = false;  // unknown characters become tokens like <0xAB>
  // SentencePiece's sums are f32, and a user-defined token beats any others; tokenizer.json's are
  // f64 and know no such tokens.
  bool sentencepiece = false;
};

class Unigram {
 public:
  // Memory of encode(), kept from word to word by one thread.
  struct Scratch {
    struct Best {
      double score = 0;
      std::int32_t id = 0;
      std::int64_t begin = -1;  // where the token that ends here begins; -1: nothing ends here
    };
    std::vector<Best> best;
    std::vector<std::int32_t> ids;
    std::int64_t steps = 0;  // steps through the trie, for tests of the cost
  };

  // `scores` by id. Throws: kTokenizerInvalid for scores that are not finite or not as many.
  Unigram(const Vocabulary& vocabulary, std::vector<double> scores, UnigramOptions options);

  // Appends the ids of a word. Requires: word is valid UTF-8.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;

 private:
  void encode_part(std::string_view part, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void add_unknown(std::string_view text, std::vector<std::int32_t>& ids) const;
  double score_of(std::int32_t id, std::size_t length) const;

  UnigramOptions options_;
  std::vector<double> scores_;
  std::vector<bool> user_defined_;
  double unk_score_ = 0, best_score_ = 0;
  Trie trie_;
  std::array<std::int32_t, 256> byte_ids_;
};

}  // namespace quern::text
