// Small tokenizers of every kind against what the reference libraries make of them
// (tests/data/tokenizer/make_kinds.py): steps one by one, whole files of every format, and the same
// vocabularies as GGUF metadata.
#include <gtest/gtest.h>
#include <simdjson.h>

#include <map>

#include "base/errors/text.h"
#include "text/protobuf.h"
#include "text/test_support.h"
#include "text/tokenizer.h"
#include "text/tokenizer_json_steps.h"

namespace quern::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;
using checkpoint::TokenizerSource;

const std::string kFolder = QUERN_TEST_DATA "/tokenizer/kinds/";
constexpr std::int64_t kRows = 700;

json data(const std::string& name) { return test::read_json(kFolder + name); }

// Reads one step of a tokenizer.json.
template <typename Read>
TokenizerSpec spec_of(const json& step, Read read) {
  TokenizerSpec spec(test::json_source(""), kRows);
  simdjson::dom::parser parser;
  read(JsonFields("steps.json"), parser.parse(simdjson::padded_string(step.dump())).value(), spec);
  return spec;
}

std::vector<std::string> words_of(const TokenizerSpec& spec, const std::string& text) {
  MatchScratch scratch;
  std::string storage;
  std::vector<std::string_view> words;
  PreTokenizer(spec.pre_tokenizer).split(text, true, scratch, storage, words);
  return {words.begin(), words.end()};
}

TEST(TokenizerKinds, PreTokenizersGiveTheReferencesWords) {
  const json file = data("steps.json");
  int compared = 0;
  for (const json& row : file["pre_tokenizers"]) {
    const TokenizerSpec spec = spec_of(row["step"], read_pre_tokenizer);
    // Words of byte-level ones are written in its alphabet there.
    const bool letters = row["step"].dump().find("ByteLevel") != std::string::npos;
    for (std::size_t i = 0; i < file["texts"].size(); ++i) {
      auto expected = row["words"][i].get<std::vector<std::string>>();
      if (letters) {
        for (std::string& word : expected) word = from_alphabet(word).value();
      }
      EXPECT_EQ(words_of(spec, file["texts"][i]), expected)
          << row["step"] << " of " << file["texts"][i];
      ++compared;
    }
  }
  EXPECT_GT(compared, 700);
}

TEST(TokenizerKinds, NormalizersGiveTheReferencesTexts) {
  const json file = data("steps.json");
  for (const json& row : file["normalizers"]) {
    const Normalizer normalizer(spec_of(row["step"], read_normalizer).normalizer);
    for (std::size_t i = 0; i < file["texts"].size(); ++i) {
      MatchScratch scratch;
      std::string text = file["texts"][i];
      normalizer.run(text, scratch);
      EXPECT_EQ(text, row["texts"][i].get<std::string>())
          << row["step"] << " of " << file["texts"][i];
    }
  }
}

// Names of GGUF files, each with the name in splits.json that has the same pattern.
TEST(TokenizerKinds, NamedSplitsGiveTheWordsOfTheModelsPatterns) {
  const json file = data("splits.json");
  const std::map<std::string, std::vector<std::string>> others = {
      {"gpt-2", {"gpt2", "default", "mpt", "olmo", "jais", "phi-2"}},
      {"smollm", {"starcoder", "refact", "command-r"}},
      {"llama-bpe", {"llama3", "llama-v3", "dbrx", "smaug-bpe", "chatglm-bpe", "glm4"}},
      {"qwen2", {"stablelm2", "deepseek-r1-qwen"}},
      {"gpt-4o", {"llama4", "o200k", "minimax-m2"}},
      {"bailingmoe", {"bailingmoe2"}},
      {"deepseek-v3", {"hunyuan-dense"}},
      {"bloom", {"poro-chat", "gpt3-finnish"}}};
  for (const auto& [name, words] : file["splits"].items()) {
    std::vector<std::string> names = {name};
    if (const auto more = others.find(name); more != others.end()) {
      names.insert(names.end(), more->second.begin(), more->second.end());
    }
    for (const std::string& each : names) {
      TokenizerSpec spec(test::json_source(""), kRows);
      spec.pre_tokenizer = split_named(each, "test", "test").steps;
      for (std::size_t i = 0; i < file["texts"].size(); ++i) {
        EXPECT_EQ(words_of(spec, file["texts"][i]), words[i].get<std::vector<std::string>>())
            << each << " of " << file["texts"][i];
      }
    }
  }
}

struct Golden {
  std::string text, decoded;
  Ids ids, special;
};

std::vector<Golden> rows_of(const json& texts, const json& rows) {
  std::vector<Golden> out;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    Golden row;
    row.text = texts[i].get<std::string>();
    row.ids = rows["ids"][i].get<Ids>();
    row.special = rows.contains("ids_special") ? rows["ids_special"][i].get<Ids>() : row.ids;
    if (rows.contains("decoded")) row.decoded = rows["decoded"][i].get<std::string>();
    out.push_back(std::move(row));
  }
  return out;
}

void compare(const Tokenizer& tokenizer, const std::vector<Golden>& rows, bool decodes = true) {
  for (const Golden& row : rows) {
    EXPECT_EQ(tokenizer.encode(row.text, false, {.add_special_tokens = false}), row.ids)
        << row.text;
    EXPECT_EQ(tokenizer.encode(row.text, false), row.special) << row.text;
    if (decodes) {
      EXPECT_EQ(decode(tokenizer, row.special), row.decoded) << row.text;
    }
  }
}

// Texts with a token's name are left to other tests: the reference always parses it.
std::vector<Golden> without_names(std::vector<Golden> rows) {
  std::erase_if(rows, [](const Golden& row) { return row.text.find("<s>") != std::string::npos; });
  return rows;
}

TEST(TokenizerKinds, TokenizerJsonOfEveryModel) {
  const json file = data("hf.json");
  for (const auto& [name, rows] : file["tokenizers"].items()) {
    SCOPED_TRACE(name);
    const auto tokenizer = Tokenizer::create(test::json_source(rows["file"].dump()), kRows);
    compare(*tokenizer, without_names(rows_of(file["texts"], rows)));
  }
}

TokenizerSource file_source(const std::string& name) {
  TokenizerSource source;
  source.model_file = test::read_file(kFolder + name);
  source.origin = name;
  return source;
}

TEST(TokenizerKinds, SentencePieceFiles) {
  const json file = data("sentencepiece.json");
  for (const char* name : {"bpe", "unigram"}) {
    SCOPED_TRACE(name);
    const auto tokenizer = Tokenizer::create(file_source(name + std::string(".model")), kRows);
    compare(*tokenizer, rows_of(file["texts"], file[name]));
  }
}

TEST(TokenizerKinds, TekkenFile) {
  const json file = data("tekken.golden.json");
  const auto tokenizer = Tokenizer::create(file_source("tekken.json"), kRows);
  compare(*tokenizer, rows_of(file["texts"], file), false);
  EXPECT_EQ(tokenizer->id_of("[TOOL_CONTENT]"), 19);
  EXPECT_EQ(tokenizer->size(), 20 + 395);  // five more are listed than the model uses
}

// The table of replaced characters of a SentencePiece file.
std::string charsmap_of(const std::string& model) {
  ProtobufReader file(model);
  while (file.next()) {
    if (file.field() != 3) continue;
    ProtobufReader normalizer(file.bytes());
    while (normalizer.next()) {
      if (normalizer.field() == 2) return std::string(normalizer.bytes());
    }
  }
  return "";
}

TEST(TokenizerKinds, SentencePieceVocabulariesOfGguf) {
  const json file = data("sentencepiece.json");
  for (const auto& [name, model] : {std::pair{"bpe", "llama"}, std::pair{"unigram", "t5"}}) {
    SCOPED_TRACE(name);
    TokenizerSource source;
    source.model = model;
    source.origin = "vocab.gguf";
    source.tokens = file[name]["tokens"].get<std::vector<std::string>>();
    source.token_types = file[name]["types"].get<std::vector<std::int32_t>>();
    source.scores = file[name]["scores"].get<std::vector<double>>();
    source.unknown_token_id = 0;
    source.bos_token_id = 1;
    source.eos_token_id = 2;
    source.remove_extra_whitespaces = true;
    source.charsmap = charsmap_of(test::read_file(kFolder + name + ".model"));
    EXPECT_EQ(source.charsmap.empty(), std::string_view(model) == "llama");
    std::vector<Golden> rows = rows_of(file["texts"], file[name]);
    const auto bare = Tokenizer::create(source, kRows);
    compare(*bare, rows, false);
    for (const Golden& row : rows) {
      // These files do not say what the unknown token writes.
      if (std::find(row.ids.begin(), row.ids.end(), 0) != row.ids.end()) continue;
      EXPECT_EQ(decode(*bare, row.ids), row.decoded) << row.text;
    }
    source.add_bos = source.add_eos = true;
    const auto around = Tokenizer::create(source, kRows);
    for (const Golden& row : rows) {
      Ids expected = row.ids;
      expected.insert(expected.begin(), 1);
      expected.push_back(2);
      EXPECT_EQ(around->encode(row.text, false), expected);
    }
  }
}

TEST(TokenizerKinds, WordPieceOfGguf) {
  const json file = data("hf.json");
  const json& bert = file["tokenizers"]["bert"];
  TokenizerSource source;
  source.model = "bert";
  source.origin = "vocab.gguf";
  source.tokens.resize(bert["file"]["model"]["vocab"].size());
  source.token_types.assign(source.tokens.size(), 1);
  for (const auto& [text, id] : bert["file"]["model"]["vocab"].items()) {
    const bool inside = text.starts_with("##"), special = text.starts_with("[") && text.size() > 1;
    source.tokens[id] = special ? text : inside ? text.substr(2) : "\u2581" + text;
    if (special) source.token_types[id] = 3;
  }
  source.unknown_token_id = 0;
  source.bos_token_id = 1;
  source.separator_token_id = 2;
  compare(*Tokenizer::create(source, kRows), without_names(rows_of(file["texts"], bert)));
}

TEST(TokenizerKinds, BytePairsOfGguf) {
  const json file = data("hf.json");
  for (const auto& [name, model] : {std::pair{"gemma", "gemma4"}, std::pair{"bytes", "gpt2"}}) {
    SCOPED_TRACE(name);
    const json& rows = file["tokenizers"][name];
    TokenizerSource source = test::as_gguf(rows["file"], "gpt-2");
    source.model = model;
    source.unknown_token_id = 0;
    source.bos_token_id = 1;
    source.add_bos = name == std::string_view("gemma");
    for (std::size_t id = 0; id < source.tokens.size(); ++id) {
      if (source.tokens[id].starts_with("<0x")) source.token_types[id] = 6;
    }
    std::vector<Golden> golden = without_names(rows_of(file["texts"], rows));
    // The name of the split says nothing of normal forms.
    std::erase_if(golden, [&](const Golden& row) {
      return !source.add_bos && (row.text.find("\u0301") != std::string::npos ||
                                 row.text.find("\u030a") != std::string::npos);
    });
    compare(*Tokenizer::create(source, kRows), golden);
  }
}

std::string base64_of(std::string_view bytes) {
  constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t bits = 0;
    const std::size_t count = std::min<std::size_t>(3, bytes.size() - i);
    for (std::size_t k = 0; k < 3; ++k) {
      bits = bits << 8 | (k < count ? static_cast<std::uint8_t>(bytes[i + k]) : 0u);
    }
    for (std::size_t k = 0; k < 4; ++k) {
      out += k <= count ? kDigits[bits >> (18 - 6 * k) & 63] : '=';
    }
  }
  return out;
}

// A file of that many ranks, by which its encoding is known: all of one and of two bytes, then some
// of "ab" and of "cd" with two bytes more.
TokenizerSource tiktoken_source(std::size_t ranks) {
  std::string lines;
  std::size_t rank = 0;
  const auto add = [&](const std::string& bytes) {
    lines += fmt::format("{} {}\n", base64_of(bytes), rank++);
  };
  const auto byte = [](std::size_t value) { return std::string(1, static_cast<char>(value)); };
  const auto two = [&](std::size_t i) { return byte(i >> 8) + byte(i); };
  for (std::size_t i = 0; i < 256; ++i) add(byte(i));
  for (std::size_t i = 0; i < 65536; ++i) add(two(i));
  for (std::size_t i = 0; i < 65536 && rank < ranks; ++i) add("ab" + two(i));
  for (std::size_t i = 0; rank < ranks; ++i) add("cd" + two(i));
  TokenizerSource source;
  source.model_file = lines;
  source.origin = "test.tiktoken";
  return source;
}

std::int32_t pair_id(std::string_view two) {
  return 256 + (static_cast<std::uint8_t>(two[0]) << 8) + static_cast<std::uint8_t>(two[1]);
}

TEST(TokenizerKinds, TiktokenFile) {
  const auto tokenizer = Tokenizer::create(tiktoken_source(100256), 101000);
  const std::int32_t four = 256 + 65536 + ('c' << 8) + 'd';
  EXPECT_EQ(tokenizer->encode("abcd", false), Ids{four});
  EXPECT_EQ(tokenizer->encode("xabcd", false), (Ids{'x', four}));
  EXPECT_EQ(tokenizer->encode("bcab", false), (Ids{pair_id("bc"), pair_id("ab")}));
  EXPECT_EQ(tokenizer->encode("It's 1234", false),
            (Ids{pair_id("It"), pair_id("'s"), ' ', pair_id("12"), '3', '4'}));
  EXPECT_EQ(tokenizer->encode("x<|endoftext|>", true), (Ids{'x', 100257}));
  EXPECT_EQ(tokenizer->size(), 100277);
  EXPECT_EQ(decode(*tokenizer, tokenizer->encode("na\u00EFve \U0001F642\n", false)),
            "na\u00EFve \U0001F642\n");
}

TEST(TokenizerKinds, KimisTiktokenFile) {
  TokenizerSource source = tiktoken_source(163584);
  source.added_tokens = {{.id = 163585, .content = "[EOS]", .special = true}};
  const auto tokenizer = Tokenizer::create(source, 163840);
  EXPECT_EQ(tokenizer->size(), 163840);
  EXPECT_EQ(tokenizer->id_of("<|reserved_token_163584|>"), 163584);
  EXPECT_EQ(tokenizer->id_of("<|reserved_token_163585|>"), -1);
  EXPECT_EQ(tokenizer->encode("cd12[EOS]", true), (Ids{pair_id("cd"), pair_id("12"), 163585}));
  EXPECT_EQ(tokenizer->encode("[EOS]", false).size(), 4u);
  // A word of Latin letters ends before a Han character: d and its first byte stay apart.
  const Ids ids = tokenizer->encode("abcd\u6F22d", false);
  EXPECT_EQ(ids.front(), 256 + 65536 + ('c' << 8) + 'd');
  EXPECT_EQ(ids.back(), 'd');
  EXPECT_EQ(decode(*tokenizer, ids), "abcd\u6F22d");
}

}  // namespace
}  // namespace quern::text
