// Unigram and WordPiece, the readers of SentencePiece, tiktoken and tekken files, on vocabularies
// of a few tokens.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>

#include "base/errors/text.h"
#include "text/base64.h"
#include "text/test_support.h"
#include "text/tokenizer.h"
#include "text/unigram.h"
#include "text/wordpiece.h"

namespace quern::text {
namespace {

using namespace std::string_literals;
using nlohmann::json;
using test::expect_error;
using testing::ElementsAre;
using Ids = std::vector<std::int32_t>;

struct Pieces {
  Pieces(const std::vector<std::string>& tokens) : vocabulary("toy", 1000) {
    for (std::size_t id = 0; id < tokens.size(); ++id) {
      vocabulary.add(tokens[id], static_cast<std::int64_t>(id), TokenKind::kNormal);
    }
  }
  Vocabulary vocabulary;
};

Ids unigram(const Pieces& pieces, const std::vector<double>& scores, std::string_view word,
            UnigramOptions options = {.unk_id = 0}) {
  const Unigram model(pieces.vocabulary, scores, options);
  Unigram::Scratch scratch;
  Ids ids;
  model.encode(word, scratch, ids);
  return ids;
}

TEST(Unigram, TakesTheBestSum) {
  const Pieces pieces({"<unk>", "a", "b", "ab", "abb", "é"});
  const std::vector<double> scores = {0, -1, -1, -1.5, -4, -2};
  EXPECT_THAT(unigram(pieces, scores, "ab"), ElementsAre(3));
  EXPECT_THAT(unigram(pieces, scores, "abb"), ElementsAre(3, 2));
  EXPECT_THAT(unigram(pieces, scores, "éa"), ElementsAre(5, 1));
  EXPECT_THAT(unigram(pieces, scores, ""), ElementsAre());
  // A run of unknown characters is one token.
  EXPECT_THAT(unigram(pieces, scores, "axyzb"), ElementsAre(1, 0, 2));
  EXPECT_THAT(unigram(pieces, scores, "xy", {}), ElementsAre());
}

TEST(Unigram, FallsBackToBytes) {
  std::vector<std::string> tokens = {"<unk>", "a"};
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(fmt::format("<0x{:02X}>", byte));
  const std::vector<double> scores(tokens.size(), -1);
  EXPECT_THAT(unigram(Pieces(tokens), scores, "aé", {.unk_id = 0, .byte_fallback = true}),
              ElementsAre(1, 2 + 0xC3, 2 + 0xA9));
}

// Against every way to cut short words.
TEST(Unigram, AgreesWithTheDefinition) {
  const std::vector<std::string> tokens = {"<unk>", "a", "b", "c", "ab", "bc", "abc", "ca", "bca"};
  const Pieces pieces(tokens);
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::vector<double> scores;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      scores.push_back(-static_cast<double>(random() % 1000) / 100 - 0.001);
    }
    std::string word(1 + random() % 9, 'a');
    for (char& c : word) c = static_cast<char>('a' + random() % 3);
    std::vector<double> best(word.size() + 1, -1e9);
    best[0] = 0;
    for (std::size_t end = 1; end <= word.size(); ++end) {
      for (std::size_t id = 1; id < tokens.size(); ++id) {
        const std::string& t = tokens[id];
        if (t.size() <= end && word.compare(end - t.size(), t.size(), t) == 0) {
          best[end] = std::max(best[end], best[end - t.size()] + scores[id]);
        }
      }
    }
    std::string joined;
    double sum = 0;
    for (const std::int32_t id : unigram(pieces, scores, word)) {
      joined += tokens[static_cast<std::size_t>(id)];
      sum += scores[static_cast<std::size_t>(id)];
    }
    EXPECT_EQ(joined, word);
    EXPECT_NEAR(sum, best[word.size()], 1e-9);
  }
}

// The cuts have the same sum but for rounding; the ids are those of the reference library, whose
// scores are not always the doubles nearest to what the file says.
TEST(Unigram, CutsEqualSumsAsTheReferenceDoes) {
  const json file = {{"model",
                      {{"type", "Unigram"},
                       {"unk_id", 0},
                       {"vocab", json::array({{"<unk>", 0.0},
                                              {"-", -3.66575238964324},
                                              {"---", -5.8096045770716636},
                                              {"x", -4.589686165836555}})}}}};
  const auto tokenizer = Tokenizer::create(test::json_source(file.dump()), 10);
  EXPECT_THAT(tokenizer->encode("x" + std::string(16, '-'), false),
              ElementsAre(3, 1, 2, 2, 2, 2, 2));
}

TEST(Unigram, CostsStepsByLengthOnly) {
  const Pieces pieces({"<unk>", "a", "aa", "aaaa"});
  const Unigram model(pieces.vocabulary, {0, -1, -1.5, -2}, {.unk_id = 0});
  Unigram::Scratch scratch;
  Ids ids;
  const std::size_t length = 1 << 20;
  model.encode(std::string(length, 'a'), scratch, ids);
  EXPECT_EQ(ids.size(), length / 4);
  EXPECT_LE(scratch.steps, static_cast<std::int64_t>(6 * length));
}

TEST(Unigram, RefusesScoresThatAreNoNumbers) {
  expect_error(errors::kTokenizerInvalid, {"score"},
               [] { unigram(Pieces({"a"}), {NAN}, "a", {}); });
  expect_error(errors::kTokenizerInvalid, {"2 scores for 1"}, [] {
    unigram(Pieces({"a"}), {0, 0}, "a", {});
  });
}

TEST(WordPiece, TakesTheLongestPieceEachTime) {
  const Pieces pieces({"[UNK]", "un", "##aff", "##able", "##a", "u"});
  const WordPiece model(pieces.vocabulary, {.unk_id = 0, .max_chars = 12});
  const auto encode = [&](std::string_view word) {
    Ids ids;
    model.encode(word, ids);
    return ids;
  };
  EXPECT_THAT(encode("unaffable"), ElementsAre(1, 2, 3));
  EXPECT_THAT(encode("ua"), ElementsAre(5, 4));
  EXPECT_THAT(encode("unx"), ElementsAre(0));
  EXPECT_THAT(encode("aff"), ElementsAre(0));
  EXPECT_THAT(encode("uaaaaaaaaaaa"), testing::SizeIs(12));
  EXPECT_THAT(encode("uaaaaaaaaaaaa"), ElementsAre(0));
  expect_error(errors::kTokenizerInvalid, {"unknown words"},
               [&] { WordPiece(pieces.vocabulary, {.unk_id = 99}); });
}

// A SentencePiece file, written by hand.
struct Proto {
  std::string bytes;
  Proto& number(int field, std::uint64_t value) {
    varint(static_cast<std::uint64_t>(field) << 3);
    return varint(value);
  }
  Proto& text(int field, const std::string& value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 2);
    varint(value.size());
    bytes += value;
    return *this;
  }
  Proto& real(int field, float value) {
    varint(static_cast<std::uint64_t>(field) << 3 | 5);
    bytes.append(reinterpret_cast<const char*>(&value), 4);
    return *this;
  }
  Proto& varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes += static_cast<char>(value | 0x80);
    bytes += static_cast<char>(value);
    return *this;
  }
};

Proto& piece(Proto& model, const std::string& text, float score, int type) {
  return model.text(
      1, Proto().text(1, text).real(2, score).number(3, static_cast<unsigned>(type)).bytes);
}

// <unk> <s> </s>, bytes from 3 on, then ▁ a b ▁a ab ▁ab <user>.
Proto pieces_file(int model_type, bool collapse) {
  Proto model;
  piece(model, "<unk>", 0, 2);
  piece(model, "<s>", 0, 3);
  piece(model, "</s>", 0, 3);
  for (int byte = 0; byte < 256; ++byte) piece(model, fmt::format("<0x{:02X}>", byte), 0, 6);
  float score = 0;
  for (const char* text : {"▁a", "ab", "▁ab", "▁", "a", "b"}) piece(model, text, --score, 1);
  piece(model, "<user>", 0, 4);
  model.text(2, Proto().number(3, static_cast<unsigned>(model_type)).number(35, 1).bytes);
  model.text(3, Proto().number(3, 1).number(4, collapse ? 1 : 0).number(5, 1).bytes);
  return model;
}

checkpoint::TokenizerSource file_source(std::string bytes) {
  checkpoint::TokenizerSource source;
  source.model_file = std::move(bytes);
  source.origin = "tokenizer.model";
  return source;
}

TEST(SentencePieceFile, EncodesAndDecodes) {
  for (const int type : {1, 2}) {
    checkpoint::TokenizerSource source = file_source(pieces_file(type, false).bytes);
    source.add_bos = true;
    const auto tokenizer = Tokenizer::create(source, 1000);
    EXPECT_THAT(tokenizer->encode("ab", true), ElementsAre(1, 261));
    EXPECT_THAT(tokenizer->encode("a\u00E9", true), ElementsAre(1, 259, 3 + 0xC3, 3 + 0xA9));
    EXPECT_THAT(tokenizer->encode("a<user>b", false), ElementsAre(1, 259, 265, 264));
    EXPECT_THAT(tokenizer->encode("<s>a</s>", true), ElementsAre(1, 259, 2));
    EXPECT_EQ(tokenizer->encode("<s>", false).size(), 5u);  // ▁ and the bytes of < s >
    EXPECT_EQ(decode(*tokenizer, Ids{1, 259, 259, 3 + 0xC3, 3 + 0xA9, 0, 264}), "a aé \u2047 b");
    EXPECT_EQ(decode(*tokenizer, Ids{3 + 0xE2, 3 + 0x82, 264}), "\uFFFD\uFFFDb");
    EXPECT_THAT(tokenizer->encode("", true), ElementsAre(1));
  }
  // A piece of no letters, whose field may be left out, is never made of a text.
  Proto empty = pieces_file(1, false);
  empty.text(1, Proto().real(2, 0).number(3, 1).bytes);
  EXPECT_THAT(Tokenizer::create(file_source(empty.bytes), 1000)->encode("ab", false),
              ElementsAre(261));
  expect_error(errors::kTokenizerInvalid, {"two ids"}, [&] {
    Tokenizer::create(file_source(empty.text(1, Proto().real(2, 0).bytes).bytes), 1000);
  });
  const auto tight = Tokenizer::create(file_source(pieces_file(2, true).bytes), 1000);
  EXPECT_THAT(tight->encode("  a   a ", true), ElementsAre(259, 259));
  EXPECT_EQ(decode(*tight, Ids{262, 262, 259}), "a");
}

TEST(SentencePieceFile, RefusesWhatIsBroken) {
  const std::string good = pieces_file(2, false).bytes;
  const auto refuse = [](std::string bytes, const std::vector<std::string>& words) {
    expect_error(errors::kTokenizerInvalid, words,
                 [&] { Tokenizer::create(file_source(std::move(bytes)), 1000); });
  };
  refuse(good.substr(0, good.size() - 3), {"cut"});
  refuse(std::string("\x0A\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\x7F", 10), {"cut"});
  refuse("\x0B", {"cut"});
  Proto twice = pieces_file(2, false);
  refuse(piece(twice, "a", 0, 1).bytes, {"two ids"});
  Proto odd = pieces_file(2, false);
  refuse(piece(odd, "zz", 0, 9).bytes, {"type 9"});
  Proto nan = pieces_file(2, false);
  refuse(piece(nan, "zz", NAN, 1).bytes, {"not a number"});
  Proto raw = pieces_file(2, false);
  refuse(piece(raw, "\xFF", 0, 1).bytes, {"not UTF-8"});
  expect_error(errors::kTokenizerUnsupported, {"word"},
               [] { Tokenizer::create(file_source(pieces_file(3, false).bytes), 1000); });
}

TEST(TiktokenFile, RefusesWhatItDoesNotKnow) {
  expect_error(errors::kTokenizerUnsupported, {"2 ranks", "cl100k"},
               [] { Tokenizer::create(file_source("IQ== 0\nIg== 1\n"), 1000); });
  for (const char* bad :
       {"IQ== 0\n?? 1\n", "IQ== 0\nIg==\n", "IQ== 0\nIg== x\n", "IQ== -1\n", "IQ== 0\nIQ== 1\n"}) {
    expect_error(errors::kTokenizerInvalid, {}, [&] { Tokenizer::create(file_source(bad), 1000); });
  }
}

json tekken_file() {
  json vocab = json::array();
  const auto add = [&vocab](const char* bytes) {
    vocab.push_back({{"rank", vocab.size()}, {"token_bytes", bytes}});
  };
  for (const char* bytes : {"YQ==", "Yg==", "IA==", "YWI="}) add(bytes);  // a b blank ab
  return {{"config",
           {{"pattern", R"(\s?\p{L}+|\s+)"},
            {"default_vocab_size", 34},
            {"default_num_special_tokens", 30}}},
          {"vocab", vocab}};
}

TEST(TekkenFile, PutsSpecialTokensFirst) {
  checkpoint::TokenizerSource source = file_source(tekken_file().dump());
  source.add_bos = true;
  source.bos_token = "<s>";
  const auto tokenizer = Tokenizer::create(source, 1000);
  EXPECT_EQ(tokenizer->size(), 34);
  EXPECT_THAT(tokenizer->encode("ab ab", true), ElementsAre(1, 33, 32, 33));
  EXPECT_EQ(tokenizer->id_of("[INST]"), 3);
  EXPECT_TRUE(tokenizer->is_control(29));
  EXPECT_EQ(decode(*tokenizer, Ids{1, 33, 32, 30}), "ab a");
  for (const char* key : {"pattern", "default_vocab_size"}) {
    json file = tekken_file();
    file["config"].erase(key);
    expect_error(errors::kTokenizerInvalid, {key},
                 [&] { Tokenizer::create(file_source(file.dump()), 1000); });
  }
}

TEST(Base64, ReadsBytes) {
  EXPECT_EQ(from_base64("YWI="), "ab");
  EXPECT_EQ(from_base64("YWI"), "ab");
  EXPECT_EQ(from_base64(""), "");
  EXPECT_EQ(from_base64("Y"), std::nullopt);
  EXPECT_EQ(from_base64("Y?=="), std::nullopt);
}

}  // namespace
}  // namespace quern::text
