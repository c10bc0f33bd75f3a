#include "checkpoint/hf_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <system_error>

#include "checkpoint/config_fields.h"
#include "checkpoint/json.h"
#include "checkpoint/mapped_file.h"

namespace quern::checkpoint {
namespace {

using nlohmann::json;

// A template, or a list of named ones of which "default" is the model's usual one, else the first.
void read_chat_templates(const ConfigFields& fields, TokenizerSource& source) {
  const json* value = fields.find({"chat_template"});
  if (value == nullptr) return;
  if (value->is_string()) {
    source.chat_template = value->get<std::string>();
    return;
  }
  const auto fail = [&]() {
    fields.invalid("chat_template", *value, "a string or a list of {name, template}");
  };
  if (!value->is_array()) fail();
  for (const json& entry : *value) {
    if (!entry.is_object()) fail();
    const auto name = entry.find("name"), text = entry.find("template");
    if (name == entry.end() || !name->is_string() || text == entry.end() || !text->is_string()) {
      fail();
    }
    if (*name == "default") {
      source.chat_template = text->get<std::string>();
    } else {
      source.named_chat_templates.emplace_back(name->get<std::string>(), text->get<std::string>());
    }
  }
  if (source.chat_template.empty() && !source.named_chat_templates.empty()) {
    source.chat_template = source.named_chat_templates.front().second;
  }
}

// A text, or the object of an added token.
std::optional<std::string> token_of(const ConfigFields& fields, std::string_view name) {
  const json* value = fields.find({name});
  if (value == nullptr) return std::nullopt;
  const json* text = value;
  if (value->is_object() && value->contains("content")) text = &value->at("content");
  if (!text->is_string()) fields.invalid(name, *value, "a string or an added token");
  return text->get<std::string>();
}

// chat_template.jinja and additional_chat_templates/NAME.jinja, which count before the config.
void read_template_files(const std::string& folder, TokenizerSource& source) {
  const std::string usual = folder + "/chat_template.jinja";
  if (is_file(usual)) source.chat_template = read_text_file(usual);
  std::error_code ignored;
  std::vector<std::filesystem::path> files;
  for (const auto& entry :
       std::filesystem::directory_iterator(folder + "/additional_chat_templates", ignored)) {
    if (entry.path().extension() == ".jinja") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  for (const std::filesystem::path& file : files) {
    const std::string name = file.stem().string();
    std::erase_if(source.named_chat_templates,
                  [&](const auto& item) { return item.first == name; });
    source.named_chat_templates.emplace_back(name, read_text_file(file.string()));
  }
}

// added_tokens_decoder: the tokens that the model file lacks, by id.
void read_added_tokens(const ConfigFields& fields, TokenizerSource& source) {
  constexpr std::string_view kName = "added_tokens_decoder";
  const json* table = fields.find({kName});
  if (table == nullptr) return;
  const auto fail = [&] { fields.invalid(kName, *table, "an object of tokens by their ids"); };
  if (!table->is_object()) fail();
  for (const auto& [key, entry] : table->items()) {
    AddedTokenSource token;
    const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), token.id);
    if (error != std::errc() || end != key.data() + key.size() || !entry.is_object()) fail();
    const auto content = entry.find("content");
    if (content == entry.end() || !content->is_string()) fail();
    token.content = content->get<std::string>();
    const auto flag = [&](const char* name) {
      const auto value = entry.find(name);
      return value != entry.end() && value->is_boolean() && value->get<bool>();
    };
    token.special = flag("special");
    token.lstrip = flag("lstrip");
    token.rstrip = flag("rstrip");
    token.single_word = flag("single_word");
    token.normalized = flag("normalized");
    source.added_tokens.push_back(std::move(token));
  }
}

// The file of a tokenizer in a format other than tokenizer.json, "" where there is none.
std::string model_file_of(const std::string& folder) {
  for (const char* name : {"tekken.json", "tokenizer.model", "spiece.model", "tiktoken.model"}) {
    const std::string file = folder + "/" + name;
    if (is_file(file)) return file;
  }
  std::vector<std::string> files;
  std::error_code ignored;
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    const std::string name = entry.path().filename().string();
    // Mistral's files carry their version: tokenizer.model.v3.
    if (name.ends_with(".tiktoken") || name.starts_with("tokenizer.model.")) {
      files.push_back(entry.path().string());
    }
  }
  return files.empty() ? std::string() : *std::min_element(files.begin(), files.end());
}

}  // namespace

void parse_tokenizer_config(std::string_view text, const std::string& file,
                            TokenizerSource& source) {
  static const json kNone = json::object();
  const json root = parse_json_object(text, file);
  const ConfigFields fields({&root}, kNone, file, "the tokenizer");
  source.add_bos = fields.boolean({"add_bos_token"}).value_or(source.add_bos);
  source.add_eos = fields.boolean({"add_eos_token"}).value_or(false);
  source.bos_token = token_of(fields, "bos_token");
  source.eos_token = token_of(fields, "eos_token");
  read_chat_templates(fields, source);
  if (!source.model_file.empty()) read_added_tokens(fields, source);
}

TokenizerSource read_tokenizer_files(const std::string& folder, const ModelConfig& config) {
  TokenizerSource source;
  source.origin = folder + "/tokenizer.json";
  source.bos_token_id = config.bos_token_id;
  if (is_file(source.origin)) {
    source.tokenizer_json = read_text_file(source.origin);
  } else if (const std::string file = model_file_of(folder); !file.empty()) {
    source.origin = file;
    source.model_file = read_text_file(file);
    // SentencePiece's, Mistral's and Llama 3's begin texts unless told otherwise; those of Qwen and
    // Kimi do not. A tokenizer.json says it itself.
    source.add_bos = !file.ends_with("tiktoken.model") && !file.ends_with(".tiktoken");
  }
  const std::string config_file = folder + "/tokenizer_config.json";
  if (is_file(config_file)) {
    parse_tokenizer_config(read_text_file(config_file), config_file, source);
  }
  read_template_files(folder, source);
  return source;
}

}  // namespace quern::checkpoint
