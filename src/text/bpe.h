// Byte-pair encoding of one word: its bytes or characters become tokens, then the neighbouring pair
// of lowest rank is merged until none is left. Long words go through a queue of pairs over a linked
// list of symbols, O(n log n), so that a megabyte without a blank costs no more than other text.
// Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "text/flat_map.h"
#include "text/token_table.h"
#include "text/vocabulary.h"

namespace quern::text {

struct BpeOptions {
  bool byte_level = true;      // words are bytes, and tokens are written in the byte alphabet
  bool whole_words = false;    // a word that is itself a token is not merged (ignore_merges)
  bool byte_fallback = false;  // characters without a token become tokens like <0xAB>
  bool fuse_unk = false;       // a run of unknown characters is one token
  std::int32_t unk_id = -1;    // -1: what has no token is left out
};

class Bpe {
 public:
  // Memory of encode(), kept from word to word by one thread.
  struct Scratch {
    struct Symbol {
      std::int32_t id;  // -1: merged into the one before it
      std::int32_t previous, next;
    };
    std::vector<std::int32_t> ids;     // of the word's symbols
    std::vector<std::uint64_t> ranks;  // of pairs, for short words
    std::vector<Symbol> symbols;       // for long ones
    std::vector<std::uint64_t> queue;  // a heap of rank << 32 | index of the left symbol
    std::int64_t steps = 0;            // merges looked at, for tests of the cost
  };

  Bpe(const Vocabulary& vocabulary, const std::vector<Merge>& merges, BpeOptions options);

  // Appends the ids of a word: bytes (not in the byte alphabet), or, unless byte_level, valid
  // UTF-8. Bytes that have no token are left out where there is no unk_id, as the reference
  // implementations do: SmolLM2's vocabulary lacks 0x04, 0xC0 and others.
  void encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;

 private:
  struct Result {
    std::uint32_t rank = 0;
    std::int32_t id = -1;
  };

  void read_symbols(const Vocabulary& vocabulary);
  void read_words(const Vocabulary& vocabulary);
  void read_joins(const Vocabulary& vocabulary, const std::vector<Merge>& merges);
  void encode_part(std::string_view part, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void encode_joined(std::string_view part, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void char_symbols(std::string_view part, std::vector<std::int32_t>& ids) const;
  void merge_short(Scratch& scratch) const;
  void merge_long(Scratch& scratch) const;
  const Result* pair(std::int32_t left, std::int32_t right) const;
  void push(Scratch& scratch, std::int32_t left, std::int32_t right, bool keep_heap) const;

  BpeOptions options_;
  std::array<std::int32_t, 256> byte_ids_;  // of bytes, or of the tokens <0xAB>
  FlatMap<std::int32_t> char_ids_;          // character → id
  FlatMap<Result> pairs_;                   // left id << 32 | right id → what they become
  FlatMap<char> joins_;  // characters that stand side by side inside some token: a << 32 | b
  bool may_cut_ = true;  // tokens of single bytes, whose neighbours are not known, are in no merge
  // Words that end as one token, so that most need no merging.
  TokenTable words_;
};

}  // namespace quern::text
