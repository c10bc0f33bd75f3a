#include "checkpoint/hf_folder.h"

#include <algorithm>
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

}  // namespace

void parse_tokenizer_config(std::string_view text, const std::string& file,
                            TokenizerSource& source) {
  static const json kNone = json::object();
  const json root = parse_json_object(text, file);
  const ConfigFields fields({&root}, kNone, file, "the tokenizer");
  source.add_bos = fields.boolean({"add_bos_token"}).value_or(false);
  source.bos_token = token_of(fields, "bos_token");
  source.eos_token = token_of(fields, "eos_token");
  read_chat_templates(fields, source);
}

TokenizerSource read_tokenizer_files(const std::string& folder, const ModelConfig& config) {
  TokenizerSource source;
  source.origin = folder + "/tokenizer.json";
  source.bos_token_id = config.bos_token_id;
  if (is_file(source.origin)) source.tokenizer_json = read_text_file(source.origin);
  const std::string config_file = folder + "/tokenizer_config.json";
  if (is_file(config_file)) {
    parse_tokenizer_config(read_text_file(config_file), config_file, source);
  }
  read_template_files(folder, source);
  return source;
}

}  // namespace quern::checkpoint
