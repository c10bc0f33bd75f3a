// Real vocabularies against what the reference implementations make of a common set of strings.
// The files are too large for this repository; where they are missing the tests are skipped.
#include <gtest/gtest.h>

#include <map>

#include "base/errors/text.h"
#include "text/bpe.h"
#include "text/chat_template.h"
#include "text/detokenizer.h"
#include "text/test_support.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"

namespace quern::text {
namespace {

using nlohmann::json;
using Ids = std::vector<std::int32_t>;

std::vector<json> read_lines(const std::filesystem::path& path) {
  std::vector<json> rows;
  std::istringstream lines(test::read_file(path));
  for (std::string line; std::getline(lines, line);) rows.push_back(json::parse(line));
  return rows;
}

std::string base64(const std::string& text) {
  std::string bytes;
  unsigned bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::string_view digits =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const std::size_t digit = digits.find(c);
    if (digit == std::string_view::npos) break;
    bits = bits << 6 | static_cast<unsigned>(digit);
    count += 6;
    if (count >= 8) {
      count -= 8;
      bytes += static_cast<char>(bits >> count);
    }
  }
  return bytes;
}

struct Case {
  const char* name;   // the folder
  const char* pre;    // what GGUF files call its pre-tokenizer
  std::int64_t rows;  // of the model's embedding
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class Reference : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    folder_ = test::shared_folder() / "tokenizers" / GetParam().name;
    if (test::shared_folder().empty()) {
      GTEST_SKIP() << "no QUERN_SHARED folder: about 230 reference rows of " << GetParam().name
                   << " were not compared";
    }
    for (const json& row : read_lines(folder_.parent_path() / "corpus.jsonl")) {
      texts_[row["id"]] = row["text"];
      if (row.contains("b64")) bytes_[row["id"]] = base64(row["b64"]);
    }
    rows_ = read_lines(folder_ / "golden.jsonl");
    source_ = test::json_source(test::read_file(folder_ / "tokenizer.json"));
  }

  // Compares every row of the golden file; returns how many there were.
  int compare(const Tokenizer& tokenizer) {
    int compared = 0;
    for (const json& row : rows_) {
      const std::string kind = row["kind"];
      if (kind == "encode") {
        const Ids ids = tokenizer.encode(texts_.at(row["case"]), true);
        Ids expected = row["ids_special"].get<Ids>();
        // A text that begins with the token that is put first gets it once, not twice.
        if (row["case"] == "special/llama3" && expected[0] == expected[1]) {
          expected.erase(expected.begin());
        }
        EXPECT_EQ(ids, expected) << row["case"];
        EXPECT_EQ(decode(tokenizer, ids), row["decoded_skip"].get<std::string>()) << row["case"];
      } else if (kind == "decode") {
        EXPECT_EQ(decode(tokenizer, row["ids"].get<Ids>()), row["decoded_skip"].get<std::string>())
            << row["name"];
      } else if (kind == "stream") {
        compare_stream(tokenizer, row);
      } else {
        continue;
      }
      ++compared;
    }
    return compared;
  }

  // The reference holds back all text that ends in U+FFFD, we only unfinished characters: ours is
  // never behind, never ahead of what the ids hold, and equal at the end.
  void compare_stream(const Tokenizer& tokenizer, const json& row) {
    Detokenizer decoder(tokenizer);
    std::string ours, theirs;
    const bool marks = row["case"] == "unicode/replacement-char";
    const Ids ids = row["ids"].get<Ids>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ours += decoder.push(ids[i]);
      if (!row["steps"][i].is_null()) theirs += row["steps"][i].get<std::string>();
      EXPECT_TRUE(ours.starts_with(theirs)) << row["case"] << " step " << i;
      EXPECT_TRUE(row["prefixes"][i].get<std::string>().starts_with(ours)) << row["case"];
      EXPECT_TRUE(marks || ours.find("\xEF\xBF\xBD") == std::string::npos) << row["case"];
    }
    EXPECT_EQ(decoder.flush(), "") << row["case"];
    EXPECT_EQ(ours, row["prefixes"].back().get<std::string>()) << row["case"];
    EXPECT_TRUE(marks || ours == theirs) << row["case"];
  }

  // Test strings of another engine, with its ids without special tokens.
  void compare_strings(const Tokenizer& tokenizer) {
    if (!std::filesystem::exists(folder_ / "llamacpp.inp")) return;
    const std::string input = test::read_file(folder_ / "llamacpp.inp");
    std::istringstream output(test::read_file(folder_ / "llamacpp.out"));
    const std::string separator = "\n__ggml_vocab_test__\n";
    std::size_t begin = 0;
    int count = 0;
    for (std::string line; std::getline(output, line); ++count) {
      const std::size_t end = input.find(separator, begin);
      std::istringstream words(line);
      Ids expected;
      for (std::int32_t id; words >> id;) expected.push_back(id);
      const std::string text = input.substr(begin, end - begin);
      EXPECT_EQ(tokenizer.encode(text, false), expected) << text;
      begin = end == std::string::npos ? input.size() : end + separator.size();
    }
    EXPECT_GT(count, 40);
  }

  std::filesystem::path folder_;
  std::map<std::string, std::string> texts_, bytes_;
  std::vector<json> rows_;
  checkpoint::TokenizerSource source_;
};

TEST_P(Reference, AgreesFromTokenizerJson) {
  const auto tokenizer = Tokenizer::create(source_, GetParam().rows);
  EXPECT_GE(compare(*tokenizer), 200);
}

TEST_P(Reference, AgreesFromGgufMetadata) {
  checkpoint::TokenizerSource source =
      test::as_gguf(json::parse(source_.tokenizer_json), GetParam().pre);
  source.bos_token_id = std::string(GetParam().name) == "llama3" ? 128000 : 0;
  source.add_bos = Tokenizer::create(source_, GetParam().rows)->encode("a", true).size() == 2;
  const auto tokenizer = Tokenizer::create(source, GetParam().rows);
  EXPECT_GE(compare(*tokenizer), 200);
  source.add_bos = false;
  compare_strings(*Tokenizer::create(source, GetParam().rows));
}

TEST_P(Reference, AgreesFromTheGgufFile) {
  const std::filesystem::path file = folder_ / "vocab.gguf";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "there is no GGUF of this tokenizer";
  checkpoint::TokenizerSource source = checkpoint::read_metadata(file.string()).tokenizer;
  EXPECT_EQ(source.pre, GetParam().pre);
  const auto tokenizer = Tokenizer::create(source, GetParam().rows);
  EXPECT_GE(compare(*tokenizer), 200);
  compare_strings(*tokenizer);
}

TEST_P(Reference, MergesBytesThatAreNotText) {
  TokenizerSpec spec = read_tokenizer_json(source_, GetParam().rows);
  const Bpe bpe(spec.vocabulary, spec.merges, spec.whole_words);
  Bpe::Scratch scratch;
  int compared = 0;
  for (const json& row : rows_) {
    if (row["kind"] != "bytes") continue;
    Ids ids;
    bpe.encode(bytes_.at(row["case"]), scratch, ids);
    EXPECT_EQ(ids, row["ids"].get<Ids>()) << row["case"];
    ++compared;
  }
  EXPECT_EQ(compared, 10);
}

INSTANTIATE_TEST_SUITE_P(
    Tokenizers, Reference,
    testing::Values(Case{"smollm2", "smollm", 49152}, Case{"gpt2", "gpt-2", 50257},
                    Case{"starcoder", "starcoder", 49152}, Case{"llama3", "llama-bpe", 128256},
                    Case{"falcon", "falcon", 65024}, Case{"deepseek-v3", "deepseek-v3", 129280}),
    [](const auto& info) {
      std::string name = info.param.name;
      std::erase(name, '-');
      return name;
    });

TEST(ReferenceTokenizer, EncodesTheChatsOfTheDefaultModel) {
  const std::filesystem::path shared = test::shared_folder();
  if (shared.empty())
    GTEST_SKIP() << "no QUERN_SHARED folder: the text and the chats of "
                    "tests/data/smollm2 were not encoded";
  const std::filesystem::path file = shared / "tokenizers" / "smollm2" / "vocab.gguf";
  const checkpoint::TokenizerSource source = checkpoint::read_metadata(file.string()).tokenizer;
  const auto tokenizer = Tokenizer::create(source, 49152);
  const ChatTemplate chat(
      {{{"default", test::read_file(shared / "chat-templates" / "smollm2.jinja")}}, {}, {}});
  const json golden = test::read_json(QUERN_TEST_DATA "/smollm2/golden.json");
  EXPECT_EQ(tokenizer->encode(test::read_file(QUERN_TEST_DATA "/smollm2/text.txt"), true),
            golden["text"]["ids"].get<Ids>());
  for (const json& row : golden["chats"]) {
    std::vector<ChatMessage> messages;
    for (const json& m : row["messages"]) messages.push_back({m["role"], m["content"]});
    EXPECT_EQ(tokenizer->encode(chat.render(messages, {})), row["prompt_ids"].get<Ids>());
  }
}

TEST(ReferenceTokenizer, RefusesWhatNeedsNormalization) {
  const std::filesystem::path shared = test::shared_folder();
  if (shared.empty()) GTEST_SKIP() << "no QUERN_SHARED folder: 5 tokenizers were not tried";
  for (const char* name : {"qwen3", "llama2", "phi3", "bert-base-uncased", "t5-small"}) {
    const std::string text = test::read_file(shared / "tokenizers" / name / "tokenizer.json");
    test::expect_error(errors::kTokenizerUnsupported, {},
                       [&] { Tokenizer::create(test::json_source(text), 1 << 20); });
  }
}

}  // namespace
}  // namespace quern::text
