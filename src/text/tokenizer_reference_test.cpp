// Real vocabularies against what the reference implementations make of a common set of strings.
// The files are too large for this repository; where they are missing the tests are skipped.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <iostream>
#include <map>

#include "checkpoint/gguf.h"
#include "checkpoint/gguf_config.h"
#include "text/base64.h"
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

enum class File { kJson, kModel, kGguf, kGgufMetadata };

struct Case {
  const char* name;      // the folder
  File from;             // what is read …
  const char* file;      // … and where it stands
  const char* golden;    // the rows
  const char* pre = "";  // what GGUF files call its pre-tokenizer
  bool plain = false;    // the reference parses no special tokens in texts (sentencepiece)
  // Rows whose ids may differ, since GGUF files lack flags of added tokens.
  std::vector<std::string> unlike = {};
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name << '/' << c.file; }

class Reference : public testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    const Case& c = GetParam();
    folder_ = test::shared_folder() / "tokenizers" / c.name;
    if (test::shared_folder().empty()) {
      GTEST_SKIP() << "no QUERN_SHARED folder: about 220 reference rows of " << c.name
                   << " were not compared";
    }
    for (const json& row : read_lines(folder_.parent_path() / "corpus.jsonl")) {
      texts_[row["id"]] = row["text"];
      if (row.contains("b64"))
        bytes_[row["id"]] = from_base64(row["b64"].get<std::string>()).value();
    }
    rows_ = read_lines(folder_ / c.golden);
    meta_ = rows_.front();
    const std::string path = unpacked(folder_ / c.file);
    if (c.from == File::kGguf) {
      // Of the model only what its tokenizer needs: not all of them are served.
      const std::string bytes = test::read_file(path);
      const auto header = checkpoint::parse_gguf(std::as_bytes(std::span(bytes)), path);
      ModelConfig config;
      config.vocab = kRows;
      const auto* bos = header.find("tokenizer.ggml.bos_token_id");
      config.bos_token_id = bos == nullptr ? -1 : static_cast<std::int32_t>(*bos->integer());
      source_ = checkpoint::gguf_tokenizer(header, config);
      // This file asks for a beginning token, the tokenizer.json of the model does not.
      if (std::string(c.name) == "phi3") source_.add_bos = false;
    } else if (c.from == File::kModel) {
      source_.model_file = test::read_file(path);
      source_.origin = c.file;
      source_.add_bos =
          meta_["reference"] == "sentencepiece" || std::string(c.name) == "mistral-tekken";
      source_.add_eos = meta_["reference"] == "sentencepiece";
      if (std::string(c.name) == "mistral-tekken") source_.bos_token = "<s>";
    } else {
      source_ = test::json_source(test::read_file(path));
    }
  }

  static std::string unpacked(const std::filesystem::path& file) {
    if (file.extension() != ".gz") return file.string();
    const std::string out =
        testing::TempDir() + file.parent_path().filename().string() + "-" + file.stem().string();
    const std::string command = "gzip -dc '" + file.string() + "' > '" + out + "'";
    EXPECT_EQ(std::system(command.c_str()), 0);
    return out;
  }

  // Compares every row of the golden file; returns how many there were.
  int compare(const Tokenizer& tokenizer) {
    int compared = 0, unlike = 0;
    for (const json& row : rows_) {
      const std::string kind = row["kind"];
      if (kind == "encode") {
        if (!compare_encode(tokenizer, row)) ++unlike;
      } else if (kind == "decode") {
        const Ids ids = row["ids"].get<Ids>();
        const auto& listed = GetParam().unlike;
        if (std::find(listed.begin(), listed.end(), row["name"]) != listed.end()) {
          ++unlike;  // the GGUF pads its tokens to the rows of the embedding
          continue;
        }
        EXPECT_EQ(decode(tokenizer, ids), row["decoded_skip"].get<std::string>()) << row["name"];
        EXPECT_EQ(decode(tokenizer, ids, {.skip_special_tokens = GetParam().plain}),
                  row["decoded"].get<std::string>())
            << row["name"];
      } else if (kind == "stream") {
        compare_stream(tokenizer, row);
      } else {
        continue;
      }
      ++compared;
    }
    std::cout << GetParam().name << '/' << GetParam().file << ": " << compared << " rows compared, "
              << unlike << " of them unlike for want of flags in the file\n";
    EXPECT_EQ(static_cast<std::size_t>(unlike), GetParam().unlike.size());
    return compared;
  }

  // Ids with and without special tokens, and their text both ways. Says whether ids were equal,
  // which they must be but for the rows named.
  bool compare_encode(const Tokenizer& tokenizer, const json& row) {
    const std::string& text = texts_.at(row["case"]);
    const Ids expected = row["ids_special"].get<Ids>(), bare = row["ids"].get<Ids>();
    const bool tiktoken = meta_["reference"] == "tiktoken" && !GetParam().plain;
    const Ids ids = tokenizer.encode(text, !GetParam().plain, {.once = false});
    const Ids without =
        tokenizer.encode(text, !GetParam().plain && !tiktoken, {.add_special_tokens = false});
    const auto& unlike = GetParam().unlike;
    const bool may_differ = std::find(unlike.begin(), unlike.end(), row["case"]) != unlike.end();
    if (!may_differ) {
      EXPECT_EQ(ids, expected) << row["case"];
      EXPECT_EQ(without, bare) << row["case"];
    }
    EXPECT_EQ(decode(tokenizer, expected), row["decoded_skip"].get<std::string>()) << row["case"];
    EXPECT_EQ(
        decode(tokenizer, expected,
               {.skip_special_tokens = GetParam().plain && meta_["reference"] == "sentencepiece"}),
        row["decoded"].get<std::string>())
        << row["case"];
    const bool equal = ids == expected && without == bare;
    if (!equal) std::cout << "  unlike: " << row["case"] << '\n';
    return equal;
  }

  // The reference holds back all text that ends in U+FFFD, we only unfinished characters: ours is
  // never behind, never ahead of what the ids hold, and equal at the end.
  void compare_stream(const Tokenizer& tokenizer, const json& row) {
    Detokenizer decoder(tokenizer, {.skip_special_tokens = false});
    std::string ours, theirs;
    const bool marks = row["case"] == "unicode/replacement-char";
    const Ids ids = row["ids"].get<Ids>();
    for (std::size_t i = 0; i < ids.size(); ++i) {
      ours += decoder.push(ids[i]);
      if (!row["steps"][i].is_null()) theirs += row["steps"][i].get<std::string>();
      EXPECT_TRUE(ours.starts_with(theirs)) << row["case"] << " step " << i;
      const std::string prefix = row["prefixes"][i].get<std::string>();
      // The decoder of byte tokens shows a whole run of them as U+FFFD until its last character is
      // complete; ours gives characters as they come.
      EXPECT_TRUE(prefix.starts_with(ours) ||
                  (prefix.find("\xEF\xBF\xBD") != std::string::npos &&
                   row["prefixes"].back().get<std::string>().starts_with(ours)))
          << row["case"];
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
      EXPECT_EQ(tokenizer.encode(text, false, {.add_special_tokens = false}), expected) << text;
      begin = end == std::string::npos ? input.size() : end + separator.size();
    }
    EXPECT_GT(count, 40);
  }

  // Rows of the embedding: as many as the tokens need.
  static constexpr std::int64_t kRows = 300000;

  std::filesystem::path folder_;
  std::map<std::string, std::string> texts_, bytes_;
  std::vector<json> rows_;
  json meta_;
  checkpoint::TokenizerSource source_;
};

TEST_P(Reference, Agrees) {
  const Case& c = GetParam();
  checkpoint::TokenizerSource source = source_;
  if (c.from == File::kGgufMetadata) {
    source = test::as_gguf(json::parse(source_.tokenizer_json), c.pre);
    source.bos_token_id = std::string(c.name) == "llama3" ? 128000 : 0;
    source.add_bos = Tokenizer::create(source_, kRows)->encode("a", true).size() == 2;
  }
  if (c.from == File::kGguf) {
    EXPECT_EQ(source.pre, c.pre);
  }
  const auto tokenizer = Tokenizer::create(source, kRows);
  EXPECT_GE(compare(*tokenizer), 200);
  compare_strings(*tokenizer);
}

TEST_P(Reference, MergesBytesThatAreNotText) {
  const bool has = std::any_of(rows_.begin(), rows_.end(),
                               [](const json& row) { return row["kind"] == "bytes"; });
  if (!has || GetParam().from != File::kJson) GTEST_SKIP() << "there are no rows of bytes";
  const TokenizerSpec spec = read_tokenizer_json(source_, kRows);
  const auto& model = std::get<BpeSpec>(spec.model);
  const Bpe bpe(spec.vocabulary, model.merges, model.options);
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

constexpr const char* kGolden = "golden.jsonl";
constexpr std::array<const char*, 4> kFrom = {"Json", "Model", "Gguf", "GgufMetadata"};

INSTANTIATE_TEST_SUITE_P(
    Tokenizers, Reference,
    testing::Values(
        Case{"smollm2", File::kJson, "tokenizer.json", kGolden},
        Case{"gpt2", File::kJson, "tokenizer.json", kGolden},
        Case{"starcoder", File::kJson, "tokenizer.json", kGolden},
        Case{"llama3", File::kJson, "tokenizer.json", kGolden},
        Case{"qwen3", File::kJson, "tokenizer.json", kGolden},
        Case{"falcon", File::kJson, "tokenizer.json", kGolden},
        Case{"deepseek-v3", File::kJson, "tokenizer.json", kGolden},
        Case{"llama2", File::kJson, "tokenizer.json", kGolden},
        Case{"phi3", File::kJson, "tokenizer.json", kGolden},
        Case{"t5-small", File::kJson, "tokenizer.json", kGolden},
        Case{"bert-base-uncased", File::kJson, "tokenizer.json", kGolden},
        Case{"llama3", File::kModel, "tokenizer.model", "golden.tiktoken.jsonl"},
        Case{"cl100k", File::kModel, "cl100k_base.tiktoken", kGolden},
        Case{"o200k", File::kModel, "o200k_base.tiktoken", kGolden},
        Case{"mistral-tekken", File::kModel, "tekken.json.gz", kGolden, "", true},
        Case{"llama2", File::kModel, "tokenizer.model", "golden.spm.jsonl", "", true},
        Case{"mistral-v3-spm", File::kModel, "tokenizer.model.v3", kGolden, "", true},
        Case{"smollm2", File::kGguf, "vocab.gguf", kGolden, "smollm"},
        Case{"gpt2", File::kGguf, "vocab.gguf", kGolden, "gpt-2"},
        Case{"starcoder", File::kGguf, "vocab.gguf", kGolden, "starcoder"},
        Case{"llama2", File::kGguf, "vocab.gguf", kGolden, "default"},
        Case{"phi3",
             File::kGguf,
             "vocab.gguf",
             kGolden,
             "default",
             false,
             {"special/s-tags", "special/phi3", "special/spaces-around", "out-of-range"}},
        Case{"gemma4", File::kGguf, "vocab.gguf.gz", kGolden, ""},
        Case{"bert-base-uncased", File::kGguf, "vocab.gguf", kGolden, "bert-bge"},
        Case{"llama3", File::kGgufMetadata, "tokenizer.json", kGolden, "llama-bpe"},
        Case{"qwen3", File::kGgufMetadata, "tokenizer.json", kGolden, "qwen2"},
        Case{"falcon", File::kGgufMetadata, "tokenizer.json", kGolden, "falcon"},
        Case{"deepseek-v3", File::kGgufMetadata, "tokenizer.json", kGolden, "deepseek-v3"}),
    [](const auto& info) {
      std::string name =
          std::string(info.param.name) + kFrom[static_cast<std::size_t>(info.param.from)];
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

}  // namespace
}  // namespace quern::text
