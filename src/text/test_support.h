// Helpers of this folder's tests: files, and small tokenizer sources.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "checkpoint/checkpoint.h"
#include "text/byte_alphabet.h"

namespace quern::text::test {

inline std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

inline nlohmann::json read_json(const std::filesystem::path& path) {
  return nlohmann::json::parse(read_file(path));
}

// The folder of references too large for the project; empty where this machine has none.
inline std::filesystem::path shared_folder() {
  const char* named = std::getenv("QUERN_SHARED");
  const std::filesystem::path folder = named != nullptr ? named : QUERN_SHARED;
  return std::filesystem::exists(folder / "fixtures") ? folder / "fixtures"
                                                      : std::filesystem::path();
}

inline checkpoint::TokenizerSource json_source(std::string text) {
  checkpoint::TokenizerSource source;
  source.tokenizer_json = std::move(text);
  source.origin = "tokenizer.json";
  return source;
}

// Four control tokens, one token for each byte (id = 4 + byte), and the merge of " " and "t".
inline checkpoint::TokenizerSource byte_source() {
  checkpoint::TokenizerSource source;
  source.model = "gpt2";
  source.pre = "gpt-2";
  source.tokens = {"<s>", "</s>", "<|im_start|>", "<|im_end|>"};
  source.token_types = {3, 3, 3, 3};
  for (int byte = 0; byte < 256; ++byte) {
    source.tokens.emplace_back(alphabet_of(static_cast<std::uint8_t>(byte)));
    source.token_types.push_back(1);
  }
  source.tokens.push_back(source.tokens[4 + ' '] + "t");
  source.token_types.push_back(1);
  source.merges = {source.tokens[4 + ' '] + " t"};
  source.origin = "tiny.gguf";
  return source;
}

// The same vocabulary as a tokenizer.json, to be changed by a test.
inline nlohmann::json byte_json() {
  const checkpoint::TokenizerSource source = byte_source();
  nlohmann::json vocab = nlohmann::json::object(), added = nlohmann::json::array();
  for (std::size_t id = 0; id < source.tokens.size(); ++id) vocab[source.tokens[id]] = id;
  for (int id = 0; id < 4; ++id) {
    added.push_back({{"id", id},
                     {"content", source.tokens[static_cast<std::size_t>(id)]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  }
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added},
          {"normalizer", nullptr},
          {"pre_tokenizer",
           {{"type", "ByteLevel"},
            {"add_prefix_space", false},
            {"trim_offsets", true},
            {"use_regex", true}}},
          {"post_processor", nullptr},
          {"decoder", {{"type", "ByteLevel"}}},
          {"model", {{"type", "BPE"}, {"vocab", vocab}, {"merges", source.merges}}}};
}

// A GGUF's view of a tokenizer.json (whose added tokens have no flags there).
inline checkpoint::TokenizerSource as_gguf(const nlohmann::json& json, std::string pre) {
  checkpoint::TokenizerSource source;
  source.model = "gpt2";
  source.pre = std::move(pre);
  source.origin = "vocab.gguf";
  const auto put = [&source](const std::string& text, std::size_t id, int type) {
    while (source.tokens.size() <= id) {
      source.tokens.push_back("[unused " + std::to_string(source.tokens.size()) + "]");
      source.token_types.push_back(5);
    }
    source.tokens[id] = text;
    source.token_types[id] = type;
  };
  for (const auto& [text, id] : json["model"]["vocab"].items()) put(text, id, 1);
  for (const auto& token : json["added_tokens"]) {
    put(token["content"], token["id"], token["special"] ? 3 : 4);
  }
  for (const auto& merge : json["model"]["merges"]) {
    source.merges.push_back(merge.is_string()
                                ? merge.get<std::string>()
                                : merge[0].get<std::string>() + " " + merge[1].get<std::string>());
  }
  return source;
}

// Runs `action` and expects an Error of that id whose message contains every one of `words`.
template <typename Action>
void expect_error(ErrorId id, const std::vector<std::string>& words, Action&& action) {
  try {
    action();
    ADD_FAILURE() << "no error, expected " << error_entry(id).symbol;
  } catch (const Error& error) {
    EXPECT_STREQ(error.entry().symbol, error_entry(id).symbol) << error.what();
    for (const std::string& word : words) {
      EXPECT_NE(error.message().find(word), std::string::npos)
          << "'" << word << "' is not in: " << error.what();
    }
  }
}

}  // namespace quern::text::test
