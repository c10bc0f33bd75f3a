// Byte-pair encoding of one word: bytes become tokens, then the neighbouring pair of lowest rank is
// merged until none is left. A queue of pairs over a linked list of symbols makes it O(n log n), so
// that a megabyte without a blank costs no more than other text. Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/flat_map.h"
#include "text/vocabulary.h"

namespace quern::text {

class Bpe {
 public:
  // Memory of encode(), kept from word to word by one thread.
  struct Scratch {
    struct Symbol {
      std::int32_t id;  // -1: merged into the one before it
      std::int32_t previous, next;
    };
    std::vector<Symbol> symbols;
    std::vector<std::uint64_t> queue;  // a heap of rank << 32 | index of the left symbol
  };

  // `merges` in order of rank. `whole_words`: a word that is itself a token is not merged
  // (tokenizer.json's ignore_merges). Requires: the vocabulary outlives this object.
  Bpe(const Vocabulary& vocabulary, std::vector<Merge> merges, bool whole_words);

  // Appends the ids of a word (bytes, not in the byte alphabet). Bytes that have no token are left
  // out, as the reference implementations do: SmolLM2's vocabulary lacks 0x04, 0xC0 and others.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;

 private:
  void merge_all(Scratch& scratch) const;
  void push(Scratch& scratch, std::int32_t left, std::int32_t right, bool keep_heap) const;

  std::array<std::int32_t, 256> byte_ids_;
  std::vector<Merge> merges_;     // by rank
  FlatMap<std::uint32_t> ranks_;  // left id << 32 | right id → rank
  std::unordered_map<std::string_view, std::int32_t> words_;
};

}  // namespace quern::text
