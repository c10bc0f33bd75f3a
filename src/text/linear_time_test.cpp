// No text costs more than its length: megabytes of the worst go through every kind of
// tokenizer, and where the models count their steps the count is held against the length. Quadratic
// work on that would take days, so that the time limit of the test would end it.
#include <gtest/gtest.h>

#include <random>

#include "text/bpe.h"
#include "text/detokenizer.h"
#include "text/test_support.h"
#include "text/tokenizer.h"

namespace quern::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr std::size_t kLength = 1'000'000;
#else
constexpr std::size_t kLength = 10'500'000;  // above the limit of steps of one match
#endif

constexpr std::size_t kShorter = kLength / 5;

std::string repeated(std::string_view unit, std::size_t length) {
  std::string text;
  text.reserve(length + unit.size());
  while (text.size() < length) text += unit;
  return text;
}

std::string random_bytes(std::size_t length) {
  std::mt19937 random(11);
  std::string text(length, '\0');
  for (char& c : text) c = static_cast<char>(random());
  return text;
}

// Letters, blanks, digits, marks and characters of up to four bytes, in runs of any length.
std::string mixed(std::size_t length) {
  const std::array<std::string_view, 12> units = {
      "a", "B", " ", "\n", "7", "'", "e\u0301", "\u6F6E", "\U0001F642", "-", "\u3000", "the "};
  std::mt19937 random(5);
  std::string text;
  while (text.size() < length) {
    const std::string_view unit = units[random() % units.size()];
    const std::size_t times = random() % 16 == 0 ? random() % 5000 : 1 + random() % 3;
    for (std::size_t i = 0; i < times; ++i) text += unit;
  }
  return text;
}

struct Text {
  const char* name;
  std::string (*make)(std::size_t length);
};

const std::vector<Text>& texts() {
  using Length = std::size_t;
  static const std::vector<Text> all = {
      {"one letter", [](Length n) { return repeated("a", n); }},
      {"blanks", [](Length n) { return repeated(" ", n); }},
      {"random bytes", random_bytes},
      {"mixed", mixed},
      {"one capital", [](Length) { return repeated("A", kShorter); }},
      {"blanks and a letter", [](Length) { return repeated(" ", kShorter) + "x"; }},
      {"line ends", [](Length) { return repeated("\r\n", kShorter); }},
      {"cut characters", [](Length) { return repeated("\xF0\x9F\x99", kShorter); }},
      {"accents on one letter", [](Length) { return "e" + repeated("\u0301", kShorter); }},
      {"characters of four bytes", [](Length) { return repeated("\U0001F642", kShorter); }},
      {"words", [](Length) { return repeated("word ", kShorter); }},
      {"beginnings of a token", [](Length) { return repeated("<|im_", kShorter); }},
      {"tokens", [](Length) { return repeated("<|im_end|> ", kShorter); }},
  };
  return all;
}

// Merges of "a" with itself up to 1024, of blanks, and a few more.
json byte_level() {
  json file = test::byte_json();
  json& vocab = file["model"]["vocab"];
  const auto add = [&](const std::string& left, const std::string& right) {
    vocab.emplace(left + right, vocab.size());
    file["model"]["merges"].push_back(left + " " + right);
  };
  for (std::string run = "a"; run.size() < 1024; run += run) add(run, run);
  std::string blanks = "\u0120";
  for (int i = 0; i < 6; ++i, blanks += blanks) add(blanks, blanks);
  add("i", "m");
  return file;
}

json with_split(json file, const char* pattern) {
  const json split = {
      {"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
  const json bytes = {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", false}};
  file["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, bytes}}};
  return file;
}

json with_normalizer(json file, const char* type) {
  file["normalizer"] = {{"type", type}};
  return file;
}

// Characters with merges over U+2581, as SentencePiece's BPE has them: a text is one word.
json by_characters() {
  json vocab = {{"<unk>", 0}, {"\u2581", 1}, {"a", 2}, {"e", 3}};
  json merges = json::array();
  const auto add = [&](const std::string& left, const std::string& right) {
    vocab.emplace(left + right, vocab.size());
    merges.push_back({left, right});
  };
  for (std::string run = "a"; run.size() < 16; run += run) add(run, run);
  for (std::string run = "\u2581"; run.size() < 48; run += run) add(run, run);
  add("\u2581", "a");
  for (int byte = 0; byte < 256; ++byte) {
    vocab.emplace(fmt::format("<0x{:02X}>", byte), vocab.size());
  }
  return {{"added_tokens", {{{"id", 299}, {"content", "<|im_end|>"}, {"special", true}}}},
          {"normalizer",
           {{"type", "Sequence"},
            {"normalizers",
             {{{"type", "Prepend"}, {"prepend", "\u2581"}},
              {{"type", "Replace"}, {"pattern", {{"String", " "}}}, {"content", "\u2581"}}}}}},
          {"model",
           {{"type", "BPE"},
            {"vocab", vocab},
            {"merges", merges},
            {"byte_fallback", true},
            {"fuse_unk", true},
            {"unk_token", "<unk>"}}}};
}

json unigram() {
  json vocab = json::array({{"<unk>", 0.0}, {"\u2581", -2.0}});
  for (std::string run = "a"; run.size() <= 16; run += run)
    vocab.push_back(json::array({run, -3.0}));
  vocab.push_back(json::array({"\u2581\u2581", -2.5}));
  return {{"added_tokens", {{{"id", 99}, {"content", "<|im_end|>"}, {"special", true}}}},
          {"normalizer", {{"type", "NFKC"}}},
          {"pre_tokenizer", {{"type", "Metaspace"}, {"split", false}}},
          {"model", {{"type", "Unigram"}, {"unk_id", 0}, {"vocab", vocab}}}};
}

json unigram_of_words() {
  json file = unigram();
  file["pre_tokenizer"] = {
      {"type", "Sequence"},
      {"pretokenizers",
       {{{"type", "WhitespaceSplit"}}, {{"type", "Metaspace"}, {"prepend_scheme", "never"}}}}};
  return file;
}

json wordpiece() {
  return {{"added_tokens", {{{"id", 9}, {"content", "<|im_end|>"}, {"special", true}}}},
          {"normalizer", {{"type", "BertNormalizer"}}},
          {"pre_tokenizer", {{"type", "BertPreTokenizer"}}},
          {"model",
           {{"type", "WordPiece"},
            {"unk_token", "[UNK]"},
            {"vocab", {{"[UNK]", 0}, {"a", 1}, {"##a", 2}, {"e", 3}, {"<", 4}}}}}};
}

constexpr const char* kLlama3 =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|)"
    R"(\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kO200k =
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|)"
    R"([^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|)"
    R"(\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

struct Kind {
  const char* name;
  json (*make)();
  bool keeps_text;     // decoding gives valid texts back
  std::size_t length;  // of the first four texts
};
void PrintTo(const Kind& kind, std::ostream* out) { *out << kind.name; }

class LinearTime : public testing::TestWithParam<Kind> {};

TEST_P(LinearTime, EncodesMegabytesOfAnything) {
  const auto tokenizer = Tokenizer::create(test::json_source(GetParam().make().dump()), 1000);
  for (const Text& text : texts()) {
    const std::string written = text.make(GetParam().length);
    const Ids ids = tokenizer->encode(written, true, {.add_special_tokens = false});
    if (text.name == std::string_view("tokens")) {
      const std::int32_t id = tokenizer->id_of("<|im_end|>");
      EXPECT_EQ(std::count(ids.begin(), ids.end(), id), (kShorter + 10) / 11);
    }
    if (!GetParam().keeps_text || valid_utf8(written) != written) continue;
    EXPECT_TRUE(decode(*tokenizer, ids, {.skip_special_tokens = false}) == written) << text.name;
  }
}

INSTANTIATE_TEST_SUITE_P(
    Tokenizers, LinearTime,
    testing::Values(
        Kind{"ByteLevelGpt2", byte_level, true, kShorter},
        Kind{"ByteLevelLlama3", [] { return with_split(byte_level(), kLlama3); }, true, kLength},
        Kind{"ByteLevelO200k", [] { return with_split(byte_level(), kO200k); }, true, kShorter},
        Kind{"ByteLevelNfc", [] { return with_normalizer(byte_level(), "NFC"); }, false, kShorter},
        Kind{"Characters", by_characters, false, kLength}, Kind{"Unigram", unigram, false, kLength},
        Kind{"UnigramWords", unigram_of_words, false, kShorter},
        Kind{"WordPiece", wordpiece, false, kLength}),
    [](const auto& info) { return info.param.name; });

// Ten times the text, ten times the steps.
TEST(LinearTime, CountsTheStepsOfMerging) {
  Vocabulary vocabulary("toy", 1000);
  std::vector<Merge> merges;
  std::int64_t id = 0;
  for (const char* letter : {"a", "b", "c"}) vocabulary.add(letter, id++, TokenKind::kNormal);
  const auto merge = [&](const std::string& left, const std::string& right) {
    vocabulary.add(left + right, id++, TokenKind::kNormal);
    merges.push_back(vocabulary.merge_of(left, right, merges.size(), false));
  };
  for (std::string run = "a"; run.size() < 64; run += run) merge(run, run);
  merge("b", "c");
  merge("bc", "bc");
  merge("aa", "bc");
  for (const bool byte_level : {true, false}) {
    const Bpe bpe(vocabulary, merges, {.byte_level = byte_level});
    const auto steps_of = [&](const std::string& word) {
      Bpe::Scratch scratch;
      Ids ids;
      bpe.encode(word, scratch, ids);
      return scratch.steps;
    };
    for (const char* unit : {"a", "bc", "aab", "aaaaabcbc", "cba"}) {
      const std::int64_t one = steps_of(repeated(unit, 100'000));
      const std::int64_t ten = steps_of(repeated(unit, 1'000'000));
      EXPECT_LE(ten, one * 11) << unit;
      // One queue for all, or a scan of up to 48 symbols for each merge of a part.
      EXPECT_LE(ten, byte_level ? 3'000'000 : 48'000'000) << unit;
    }
  }
}

// Words of every length around the border between the two ways to merge.
TEST(LinearTime, CountsTheStepsOfWordsOfAnyLength) {
  for (std::size_t length : {1u, 8u, 40u, 48u, 49u, 64u, 500u}) {
    Vocabulary vocabulary("toy", 10);
    vocabulary.add("a", 0, TokenKind::kNormal);
    vocabulary.add("aa", 1, TokenKind::kNormal);
    const Bpe bpe(vocabulary, {vocabulary.merge_of("a", "a", 0, false)}, {});
    Bpe::Scratch scratch;
    Ids ids;
    for (std::size_t done = 0; done < 1'000'000; done += length) {
      bpe.encode(std::string(length, 'a'), scratch, ids);
    }
    EXPECT_LE(scratch.steps, 50'000'000) << length;
    EXPECT_EQ(ids.size(), (1'000'000 + length - 1) / length * ((length + 1) / 2)) << length;
  }
}

// The blank before the letter parts from the others, however many there are.
TEST(LinearTime, KeepsTheIdsOfAnEndlessRunOfBlanks) {
  for (const char* pattern : {kLlama3, kO200k}) {
    const auto tokenizer =
        Tokenizer::create(test::json_source(with_split(byte_level(), pattern).dump()), 1000);
    const std::size_t length = pattern == kLlama3 ? kLength : kShorter;
    const Ids shorter = tokenizer->encode(std::string(129, ' ') + "xx", false);
    Ids longer = tokenizer->encode(std::string(length / 64 * 64 + 1, ' ') + "xx", false);
    ASSERT_GT(longer.size(), shorter.size());
    EXPECT_EQ(Ids(longer.end() - 3, longer.end()), Ids(shorter.end() - 3, shorter.end()));
  }
}

TEST(LinearTime, TakesAHundredThousandSpecialTokens) {
  const std::string text = repeated("<|im_end|>", 1'000'000);
  for (const auto make : {byte_level, by_characters, unigram, wordpiece}) {
    const auto tokenizer = Tokenizer::create(test::json_source(make().dump()), 1000);
    const std::int32_t id = tokenizer->id_of("<|im_end|>");
    EXPECT_EQ(tokenizer->encode(text, true), Ids(100'000, id));
    const Ids plain = tokenizer->encode(text, false);
    EXPECT_EQ(std::count(plain.begin(), plain.end(), id), 0);
  }
  // As many in the vocabulary, each the beginning of others.
  json file = test::byte_json();
  for (int i = 0; i < 100'000; ++i) {
    file["added_tokens"].push_back({{"id", 300 + i},
                                    {"content", fmt::format("<s{}>", i)},
                                    {"special", true},
                                    {"normalized", i % 2 == 0}});
  }
  const auto tokenizer = Tokenizer::create(test::json_source(file.dump()), 200'000);
  EXPECT_EQ(tokenizer->encode("<s99999><s7>x<s1", true),
            (Ids{100'299, 307, 4 + 'x', 4 + '<', 4 + 's', 4 + '1'}));
  EXPECT_EQ(tokenizer->encode(repeated("<s12345>", 800'000), true), Ids(100'000, 12'645));
}

}  // namespace
}  // namespace quern::text
