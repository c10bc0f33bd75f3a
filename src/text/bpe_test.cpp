#include "text/bpe.h"

#include <gtest/gtest.h>

#include <random>

#include "text/test_support.h"

namespace quern::text {
namespace {

using Ids = std::vector<std::int32_t>;

// A vocabulary of the letters a to d and every merge of two tokens up to four letters, in an order
// drawn from `seed`.
struct Toy {
  explicit Toy(unsigned seed) : vocabulary("toy", 1000) {
    std::vector<std::string> tokens;
    for (const char* letter : {"a", "b", "c", "d"}) tokens.emplace_back(letter);
    std::mt19937 random(seed);
    for (int i = 0; i < 40; ++i) {
      const std::string joined =
          tokens[random() % tokens.size()] + tokens[random() % tokens.size()];
      if (joined.size() <= 6 && std::find(tokens.begin(), tokens.end(), joined) == tokens.end()) {
        tokens.push_back(joined);
      }
    }
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      vocabulary.add(tokens[i], static_cast<std::int64_t>(i), TokenKind::kNormal);
    }
    for (const std::string& left : tokens) {
      for (const std::string& right : tokens) {
        if (vocabulary.id_of(left + right) >= 0) {
          merges.push_back(vocabulary.merge_of(left, right, 0, false));
        }
      }
    }
    std::shuffle(merges.begin(), merges.end(), random);
    for (std::size_t rank = 0; rank < merges.size(); ++rank) {
      merges[rank].rank = static_cast<std::uint32_t>(rank);
    }
  }

  // The definition: merge the leftmost pair of lowest rank until there is none.
  Ids slowly(std::string_view word) const {
    Ids ids;
    for (const char letter : word) ids.push_back(vocabulary.id_of(std::string(1, letter)));
    while (true) {
      std::size_t best_rank = merges.size(), best_at = 0;
      for (std::size_t at = 0; at + 1 < ids.size(); ++at) {
        for (std::size_t rank = 0; rank < best_rank; ++rank) {
          if (merges[rank].left == ids[at] && merges[rank].right == ids[at + 1]) {
            best_rank = rank;
            best_at = at;
          }
        }
      }
      if (best_rank == merges.size()) return ids;
      ids[best_at] = merges[best_rank].result;
      ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best_at) + 1);
    }
  }

  Vocabulary vocabulary;
  std::vector<Merge> merges;
};

TEST(Bpe, AgreesWithTheDefinition) {
  for (unsigned seed = 0; seed < 120; ++seed) {
    const Toy toy(seed / 2);
    const bool byte_level = seed % 2 == 0;
    const Bpe bpe(toy.vocabulary, toy.merges, {.byte_level = byte_level});
    Bpe::Scratch scratch;
    std::mt19937 random(seed + 1000);
    for (int i = 0; i < 50; ++i) {
      std::string word(random() % (i < 40 ? 40 : 300), 'a');
      for (char& letter : word) letter = static_cast<char>('a' + random() % 4);
      Ids ids;
      bpe.encode(word, scratch, ids);
      ASSERT_EQ(ids, toy.slowly(word)) << "seed " << seed << " word " << word;
    }
  }
}

TEST(Bpe, EncodesAMegabyteOfOneLetter) {
  Vocabulary vocabulary("toy", 100);
  std::vector<Merge> merges;
  std::string token = "a";
  vocabulary.add(token, 0, TokenKind::kNormal);
  for (std::int64_t id = 1; id <= 10; ++id) {
    vocabulary.add(token + token, id, TokenKind::kNormal);
    merges.push_back(vocabulary.merge_of(token, token, merges.size(), false));
    token += token;
  }
  const Bpe bpe(vocabulary, merges, {});
  Bpe::Scratch scratch;
  Ids ids;
  bpe.encode(std::string((1 << 20) + 3, 'a'), scratch, ids);
  ASSERT_EQ(ids.size(), 1024u + 2u);
  EXPECT_EQ(ids[0], 10);
  EXPECT_EQ(ids[1024], 1);
  EXPECT_EQ(ids[1025], 0);
}

TEST(ByteAlphabet, WritesEveryByteAsOneLetterAndBack) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  EXPECT_EQ(from_alphabet(to_alphabet(all)), all);
  EXPECT_EQ(to_alphabet(" \nA\x7F\xAD\xFF"), "ĠĊAġŃÿ");
  for (const char* text : {"a b", "潮", "\xC4", "\xC5\x84", "\xFF"}) {
    EXPECT_EQ(from_alphabet(text), std::nullopt);
  }
}

}  // namespace
}  // namespace quern::text
