#include "text/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/errors/text.h"
#include "text/test_support.h"

namespace quern::text {
namespace {

using nlohmann::json;
using test::byte_json;
using test::byte_source;
using test::expect_error;
using test::json_source;
using testing::ElementsAre;
using Ids = std::vector<std::int32_t>;

constexpr std::int64_t kRows = 261;

std::unique_ptr<Tokenizer> make(const json& file, std::int64_t rows = kRows) {
  return Tokenizer::create(json_source(file.dump()), rows);
}

Ids byte_ids(std::string_view text) {
  Ids ids;
  for (const char c : text) ids.push_back(4 + static_cast<std::uint8_t>(c));
  return ids;
}

TEST(Tokenizer, EncodesTheGoldenTexts) {
  const std::string folder = QUERN_TEST_DATA "/tokenizer/";
  const auto tokenizer =
      Tokenizer::create(json_source(test::read_file(folder + "tokenizer.json")), 512);
  const json golden = test::read_json(folder + "golden.json");
  for (const json& row : golden["encode"]) {
    EXPECT_EQ(tokenizer->encode(row["text"].get<std::string>(), true), row["ids"].get<Ids>())
        << row["text"];
  }
  for (const json& row : golden["decode"]) {
    EXPECT_EQ(decode(*tokenizer, row["ids"].get<Ids>()),
              row["text_skip_special"].get<std::string>());
  }
  for (const json& row : golden["chat"]) {
    EXPECT_EQ(tokenizer->encode(row["rendered"].get<std::string>(), true), row["ids"].get<Ids>());
  }
}

TEST(Tokenizer, ReadsTheGoldenTextsFromGgufMetadataToo) {
  const std::string folder = QUERN_TEST_DATA "/tokenizer/";
  const auto tokenizer =
      Tokenizer::create(test::as_gguf(test::read_json(folder + "tokenizer.json"), "smollm"), 512);
  const json golden = test::read_json(folder + "golden.json");
  for (const json& row : golden["encode"]) {
    EXPECT_EQ(tokenizer->encode(row["text"].get<std::string>(), true), row["ids"].get<Ids>());
  }
}

TEST(Tokenizer, EncodesAndDecodesEveryByte) {
  for (const bool gguf : {true, false}) {
    const auto tokenizer = gguf ? Tokenizer::create(byte_source(), kRows) : make(byte_json());
    EXPECT_EQ(tokenizer->size(), 261);
    std::string all;
    for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
    std::string back;
    for (const std::int32_t id : tokenizer->encode(all, false)) back += tokenizer->bytes(id);
    EXPECT_EQ(back, all);
    EXPECT_EQ(tokenizer->encode("\xFF\xFE x\xC3", true), byte_ids("\xFF\xFE x\xC3"));
    EXPECT_EQ(tokenizer->encode(" t", true), Ids{260});
    EXPECT_EQ(tokenizer->encode("a tt", true), (Ids{4 + 'a', 260, 4 + 't'}));
    EXPECT_EQ(tokenizer->encode("", true), Ids{});
    EXPECT_EQ(tokenizer->bytes(0), "");
    EXPECT_TRUE(tokenizer->is_control(3));
    EXPECT_FALSE(tokenizer->is_control(4));
    EXPECT_EQ(tokenizer->id_of("<|im_end|>"), 3);
    EXPECT_EQ(tokenizer->id_of("nothing"), -1);
    for (const std::int32_t id : {-1, 261, 2000000000}) {
      EXPECT_EQ(tokenizer->bytes(id), "");
      EXPECT_FALSE(tokenizer->is_control(id));
    }
  }
}

TEST(Tokenizer, DecodesACutCharacterAsReplacement) {
  const auto tokenizer = Tokenizer::create(byte_source(), kRows);
  EXPECT_EQ(decode(*tokenizer, byte_ids("a\xF0\x9F")), "a\xEF\xBF\xBD");
  Ids ids = byte_ids("a\xC3");
  ids.push_back(3);  // a control token writes nothing and does not part a character
  ids.push_back(4 + 0xA9);
  EXPECT_EQ(decode(*tokenizer, ids), "aé");
}

TEST(Tokenizer, FindsControlTokensInTrustedTextOnly) {
  for (const bool gguf : {true, false}) {
    const auto tokenizer = gguf ? Tokenizer::create(byte_source(), kRows) : make(byte_json());
    EXPECT_EQ(tokenizer->encode("<|im_end|>", true), Ids{3});
    EXPECT_EQ(tokenizer->encode("<|im_end|>", false), byte_ids("<|im_end|>"));
    const std::vector<PromptPiece> pieces = {
        {"<|im_start|>", true}, {"a<|im_end|>b", false}, {"<|im_end|>", true}};
    Ids expected = byte_ids("a<|im_end|>b");
    expected.insert(expected.begin(), 2);
    expected.push_back(3);
    EXPECT_EQ(tokenizer->encode(pieces), expected);
  }
}

TEST(Tokenizer, NeverJoinsTrustedAndUntrustedTextToAControlToken) {
  const auto tokenizer = Tokenizer::create(byte_source(), kRows);
  const std::string token = "<|im_end|>";
  for (std::size_t cut = 1; cut < token.size(); ++cut) {
    for (const bool first : {true, false}) {
      const std::vector<PromptPiece> pieces = {{token.substr(0, cut), first},
                                               {token.substr(cut), !first}};
      EXPECT_EQ(tokenizer->encode(pieces), byte_ids(token)) << cut;
    }
    const std::vector<PromptPiece> trusted = {
        {token.substr(0, cut), true}, {"", false}, {token.substr(cut), true}};
    EXPECT_EQ(tokenizer->encode(trusted), Ids{3});
  }
}

TEST(Tokenizer, SplitsWordsAcrossPieces) {
  const auto tokenizer = Tokenizer::create(byte_source(), kRows);
  const std::vector<PromptPiece> pieces = {{"x ", true}, {"t", false}, {"y", true}};
  EXPECT_THAT(tokenizer->encode(pieces), ElementsAre(4 + 'x', 260, 4 + 'y'));
}

TEST(Tokenizer, FindsUserDefinedTokensEverywhereAndTheLongestFirst) {
  checkpoint::TokenizerSource source = byte_source();
  for (const char* text : {"<tool>", "<tool>>", "  "}) {
    source.tokens.emplace_back(text);
    source.token_types.push_back(4);
  }
  const auto tokenizer = Tokenizer::create(source, 300);
  EXPECT_THAT(tokenizer->encode("<tool>x<tool>>", false), ElementsAre(261, 4 + 'x', 262));
  EXPECT_THAT(tokenizer->encode("   a", false), ElementsAre(263, 4 + ' ', 4 + 'a'));
  EXPECT_EQ(decode(*tokenizer, Ids{261, 263}), "<tool>  ");
}

TEST(Tokenizer, HonoursTheFlagsOfAddedTokens) {
  json file = byte_json();
  const auto add = [&file](int id, const char* text, std::initializer_list<const char*> flags) {
    json token = {{"id", id}, {"content", text}, {"special", false}, {"normalized", false}};
    for (const char* flag : flags) token[flag] = true;
    file["added_tokens"].push_back(token);
  };
  add(261, "<l>", {"lstrip"});
  add(262, "<r>", {"rstrip"});
  add(263, "cat", {"single_word"});
  add(264, "<n>", {"normalized"});
  add(265, "<n>l", {});
  const auto tokenizer = make(file, 300);
  EXPECT_THAT(tokenizer->encode("a \xE2\x80\x83\n<l> b", false),
              ElementsAre(4 + 'a', 261, 4 + ' ', 4 + 'b'));
  EXPECT_THAT(tokenizer->encode("a <r> \xE2\x80\x83\nb", false),
              ElementsAre(4 + 'a', 4 + ' ', 262, 4 + 'b'));
  EXPECT_THAT(tokenizer->encode("<r> <l>", false), ElementsAre(262, 261));
  EXPECT_THAT(tokenizer->encode("cat", false), ElementsAre(263));
  EXPECT_EQ(tokenizer->encode("cats", false), byte_ids("cats"));
  EXPECT_EQ(tokenizer->encode("\xC3\xA9"
                              "cat",
                              false),
            byte_ids("\xC3\xA9"
                     "cat"));
  EXPECT_THAT(tokenizer->encode("cat-cat", false), ElementsAre(263, 4 + '-', 263));
  EXPECT_THAT(tokenizer->encode("<n><n>l", false), ElementsAre(264, 265));
}

TEST(Tokenizer, PutsOneBeginningTokenFirstWhereAsked) {
  checkpoint::TokenizerSource source = byte_source();
  source.bos_token_id = 0;
  EXPECT_EQ(Tokenizer::create(source, kRows)->encode("a", true), Ids{4 + 'a'});
  source.add_bos = true;
  const auto tokenizer = Tokenizer::create(source, kRows);
  EXPECT_THAT(tokenizer->encode("a", true), ElementsAre(0, 4 + 'a'));
  EXPECT_THAT(tokenizer->encode("<s>a", true), ElementsAre(0, 4 + 'a'));
  EXPECT_THAT(tokenizer->encode("</s><s>a", true), ElementsAre(0, 1, 0, 4 + 'a'));
  EXPECT_EQ(tokenizer->encode("", true), Ids{0});
  Ids expected = byte_ids("<s>");
  expected.insert(expected.begin(), 0);
  EXPECT_EQ(tokenizer->encode("<s>", false), expected);
}

TEST(Tokenizer, PutsWhatThePostProcessorSaysAroundTexts) {
  json file = byte_json();
  const auto special = [](const char* text) {
    return json{{"SpecialToken", {{"id", text}, {"type_id", 0}}}};
  };
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  file["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {special("<s>"), text}}};
  EXPECT_THAT(make(file)->encode("a", true), ElementsAre(0, 4 + 'a'));
  file["post_processor"]["single"] = {special("<s>"), text, special("</s>")};
  const auto both = make(file);
  EXPECT_THAT(both->encode("a", true), ElementsAre(0, 4 + 'a', 1));
  EXPECT_THAT(both->encode("", true), ElementsAre(0, 1));
  EXPECT_THAT(both->encode("a", true, {.add_special_tokens = false}), ElementsAre(4 + 'a'));
  EXPECT_THAT(both->encode("<s>a</s>", true), ElementsAre(0, 4 + 'a', 1));
  EXPECT_THAT(both->encode("<s>a</s>", true, {.once = false}), ElementsAre(0, 0, 4 + 'a', 1, 1));
  file["post_processor"]["special_tokens"]["<s>"] = {{"id", "<s>"}, {"ids", {2, 3}}};
  EXPECT_THAT(make(file)->encode("a", true), ElementsAre(2, 3, 4 + 'a', 1));
  for (const char* type : {"RobertaProcessing", "BertProcessing"}) {
    file["post_processor"] = {{"type", type}, {"cls", {"<s>", 0}}, {"sep", {"</s>", 1}}};
    EXPECT_THAT(make(file)->encode("a", true), ElementsAre(0, 4 + 'a', 1));
  }
  file["post_processor"] = {{"type", "TemplateProcessing"}, {"single", {text, text}}};
  expect_error(errors::kTokenizerUnsupported, {"post_processor", "2 texts"}, [&] { make(file); });
}

TEST(Tokenizer, TakesRowsWithoutTokensAndIdsWithGaps) {
  checkpoint::TokenizerSource source = byte_source();
  for (int i = 0; i < 5; ++i) {  // bytes 0xFC to 0xFF, and the result of the only merge
    source.tokens.pop_back();
    source.token_types.pop_back();
  }
  const auto tokenizer = Tokenizer::create(source, kRows);
  EXPECT_EQ(tokenizer->size(), 256);
  EXPECT_EQ(tokenizer->encode(" t", true), byte_ids(" t"));
  // Bytes without a token are left out, and what was around them stands together.
  EXPECT_EQ(tokenizer->encode("a\xFE"
                              "b",
                              false),
            byte_ids("ab"));
  EXPECT_EQ(tokenizer->encode("\xFE\xFF", false), Ids{});

  json file = byte_json();
  file["added_tokens"].push_back({{"id", 299}, {"content", "<far>"}, {"special", false}});
  const auto gaps = make(file, 1000);
  EXPECT_EQ(gaps->size(), 300);
  EXPECT_EQ(gaps->bytes(270), "");
  EXPECT_FALSE(gaps->is_control(270));
  EXPECT_EQ(gaps->bytes(299), "<far>");
}

TEST(Tokenizer, ReadsByteTokensOfGguf) {
  checkpoint::TokenizerSource source = byte_source();
  source.tokens[4 + 'x'] = "<0x78>";
  source.token_types[4 + 'x'] = 6;
  const auto tokenizer = Tokenizer::create(source, kRows);
  EXPECT_EQ(tokenizer->encode("x", false), Ids{4 + 'x'});
  EXPECT_EQ(tokenizer->bytes(4 + 'x'), "x");
  source.tokens[4 + 'x'] = "<0xG8>";
  expect_error(errors::kTokenizerInvalid, {"<0xG8>", "tiny.gguf"},
               [&] { Tokenizer::create(source, kRows); });
}

TEST(Tokenizer, RefusesBrokenGgufMetadata) {
  const auto refuse = [](const std::vector<std::string>& words, auto&& change,
                         std::int64_t rows = kRows) {
    checkpoint::TokenizerSource source = byte_source();
    change(source);
    expect_error(errors::kTokenizerInvalid, words, [&] { Tokenizer::create(source, rows); });
  };
  using Source = checkpoint::TokenizerSource;
  refuse({"there is none", "tiny.gguf"}, [](Source& s) { s.model.clear(); });
  refuse({"tokens is missing"}, [](Source& s) { s.tokens.clear(); });
  refuse(
      {"261 tokens for 260"}, [](Source&) {}, 260);
  refuse({"two ids, 7 and 9"}, [](Source& s) { s.tokens[9] = s.tokens[7]; });
  refuse({"261 tokens but 3"}, [](Source& s) { s.token_types.resize(3); });
  refuse({"token_type[5] is 77"}, [](Source& s) { s.token_types[5] = 77; });
  refuse({"not two tokens", "abc"}, [](Source& s) { s.merges.emplace_back("abc"); });
  refuse({"not two tokens"}, [](Source& s) { s.merges.emplace_back("a b c"); });
  refuse({"unknown token 'nope'"}, [](Source& s) { s.merges.emplace_back("nope a"); });
  refuse({"stands twice"}, [](Source& s) { s.merges.push_back(s.merges[0]); });
  refuse({"control token '<s>'"}, [](Source& s) { s.merges.emplace_back("<s> a"); });
  refuse({"id 261 to put around"}, [](Source& s) {
    s.add_bos = true;
    s.bos_token_id = 261;
  });
  refuse({"-2"}, [](Source& s) {
    s.add_bos = true;
    s.bos_token_id = -2;
  });
  refuse({"1 to 1024 bytes"}, [](Source& s) { s.tokens[0] = std::string(1025, 'x'); });
  refuse({"1 to 1024 bytes"}, [](Source& s) { s.tokens[0].clear(); });
}

// A merge that would write a control token out of ordinary letters.
TEST(Tokenizer, RefusesMergesThatMakeControlTokens) {
  checkpoint::TokenizerSource source = byte_source();
  source.tokens[0] = "ab";
  source.merges.emplace_back("a b");
  expect_error(errors::kTokenizerInvalid, {"control token 'ab'"},
               [&] { Tokenizer::create(source, kRows); });
}

TEST(Tokenizer, NamesWhatItDoesNotServeOfGguf) {
  checkpoint::TokenizerSource source = byte_source();
  source.pre = "superbpe";
  expect_error(errors::kTokenizerUnsupported, {"'superbpe'", "gpt-2", "smollm", "tiny.gguf"},
               [&] { Tokenizer::create(source, kRows); });
  source = byte_source();
  source.model = "rwkv";
  expect_error(errors::kTokenizerUnsupported, {"tokenizer.ggml.model", "'rwkv'"},
               [&] { Tokenizer::create(source, kRows); });
}

TEST(Tokenizer, RefusesBrokenTokenizerJson) {
  const auto refuse = [](const std::vector<std::string>& words, auto&& change) {
    json file = byte_json();
    change(file);
    expect_error(errors::kTokenizerInvalid, words, [&] { make(file); });
  };
  refuse({"id 9 stands for both"}, [](json& f) { f["model"]["vocab"]["zz"] = 9; });
  refuse({"'zz' has id 261", "261 vocabulary rows"},
         [](json& f) { f["model"]["vocab"]["zz"] = 261; });
  refuse({"'zz' has id -1"}, [](json& f) { f["model"]["vocab"]["zz"] = -1; });
  refuse({"'zz' is not an integer"}, [](json& f) { f["model"]["vocab"]["zz"] = 1.5; });
  refuse({"'zz' is not an integer"},
         [](json& f) { f["model"]["vocab"]["zz"] = 18446744073709551615u; });
  refuse({"vocab is not an object"}, [](json& f) { f["model"]["vocab"] = json::array(); });
  refuse({"model has no vocab"}, [](json& f) { f["model"].erase("vocab"); });
  refuse({"model has no merges"}, [](json& f) { f["model"].erase("merges"); });
  refuse({"unknown token 'nope'"}, [](json& f) { f["model"]["merges"].push_back("nope a"); });
  refuse({"gives an unknown token"}, [](json& f) { f["model"]["merges"].push_back("a b"); });
  refuse({"stands twice"},
         [](json& f) { f["model"]["merges"].push_back(f["model"]["merges"][0]); });
  refuse({"not two tokens"}, [](json& f) { f["model"]["merges"].push_back({"a", "b", "c"}); });
  refuse({"a merge is not a list"}, [](json& f) { f["model"]["merges"].push_back(7); });
  refuse({"has no model"}, [](json& f) { f.erase("model"); });
  refuse({"added_tokens is not a list"}, [](json& f) { f["added_tokens"] = 3; });
  refuse({"lacks content or id"}, [](json& f) { f["added_tokens"][0].erase("id"); });
  refuse({"two ids, 0 and 5"}, [](json& f) { f["added_tokens"][0]["id"] = 5; });
  refuse({"stands twice"}, [](json& f) { f["added_tokens"].push_back(f["added_tokens"][0]); });
  refuse({"'<far>' has id 2000000000"}, [](json& f) {
    f["added_tokens"].push_back({{"id", 2000000000}, {"content", "<far>"}, {"special", true}});
  });
  refuse({"add_prefix_space"}, [](json& f) { f["pre_tokenizer"]["add_prefix_space"] = "no"; });
  refuse({"pre_tokenizer has no type"}, [](json& f) { f["pre_tokenizer"].erase("type"); });
  refuse({"does not compile"}, [](json& f) {
    f["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"Regex", "(a"}}}, {"behavior", "Isolated"}};
  });
}

TEST(Tokenizer, RefusesTokenizerJsonThatIsNotJson) {
  const std::string good = byte_json().dump();
  for (const std::string& text :
       {std::string("{"), std::string("[]"), std::string("\xFF"), std::string(100000, '['),
        good.substr(0, good.size() / 2), good + "x"}) {
    expect_error(errors::kTokenizerInvalid, {"tokenizer.json"},
                 [&] { Tokenizer::create(json_source(text), kRows); });
  }
  // One name twice: the ids differ.
  std::string twice = good;
  twice.insert(twice.find("\"vocab\":{") + 9, "\"a\":260,");
  expect_error(errors::kTokenizerInvalid, {},
               [&] { Tokenizer::create(json_source(twice), kRows); });
}

TEST(Tokenizer, NamesWhatItDoesNotServeOfTokenizerJson) {
  const auto refuse = [](const std::vector<std::string>& words, auto&& change) {
    json file = byte_json();
    change(file);
    expect_error(errors::kTokenizerUnsupported, words, [&] { make(file); });
  };
  refuse({"normalizer", "'Odd'"}, [](json& f) { f["normalizer"] = {{"type", "Odd"}}; });
  refuse({"normalizer", "'Odd'"}, [](json& f) {
    f["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "Odd"}}}}};
  });
  refuse({"model.type", "'WordLevel'"}, [](json& f) { f["model"]["type"] = "WordLevel"; });
  refuse({"dropout"}, [](json& f) { f["model"]["dropout"] = 0.1; });
  refuse({"byte_fallback"}, [](json& f) { f["model"]["byte_fallback"] = true; });
  refuse({"end_of_word_suffix"}, [](json& f) { f["model"]["end_of_word_suffix"] = "</w>"; });
  refuse({"pre_tokenizer", "'Odd'"}, [](json& f) { f["pre_tokenizer"]["type"] = "Odd"; });
  refuse({"decoder", "'CTC'"}, [](json& f) { f["decoder"] = {{"type", "CTC"}}; });
  refuse({"2 ByteLevel"}, [](json& f) {
    const json step = f["pre_tokenizer"];
    f["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {step, step}}};
  });
  refuse({"behavior", "'Odd'"}, [](json& f) {
    f["pre_tokenizer"] = {{"type", "Split"}, {"pattern", {{"String", "a"}}}, {"behavior", "Odd"}};
  });
  refuse({"\\h"}, [](json& f) {
    f["pre_tokenizer"] = {
        {"type", "Split"}, {"pattern", {{"Regex", "\\h+"}}}, {"behavior", "Isolated"}};
  });
  refuse({"post_processor", "'Odd'"}, [](json& f) { f["post_processor"] = {{"type", "Odd"}}; });
  json wordpiece = byte_json();
  wordpiece["model"].erase("type");
  EXPECT_EQ(make(wordpiece)->encode(" t", true), Ids{260});
  wordpiece["model"].erase("merges");
  expect_error(errors::kTokenizerUnsupported, {"model.type"}, [&] { make(wordpiece); });
}

TEST(Tokenizer, KeepsAWholeWordWhereMergesAreIgnored) {
  json file = byte_json();
  file["model"]["vocab"]["word"] = 261;
  EXPECT_EQ(make(file, 300)->encode("word", true), byte_ids("word"));
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(make(file, 300)->encode("word", true), Ids{261});
  EXPECT_EQ(make(file, 300)->encode("words", true), byte_ids("words"));
}

}  // namespace
}  // namespace quern::text
