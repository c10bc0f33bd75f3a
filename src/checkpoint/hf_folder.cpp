#include "checkpoint/hf_folder.h"

#include <nlohmann/json.hpp>

#include "checkpoint/config_fields.h"
#include "checkpoint/json.h"
#include "checkpoint/mapped_file.h"

namespace quern::checkpoint {
namespace {

using nlohmann::json;

// A template, or a list of named ones of which "default" counts, else the first.
std::string chat_template_of(const ConfigFields& fields) {
  const json* value = fields.find({"chat_template"});
  if (value == nullptr) return "";
  if (value->is_string()) return value->get<std::string>();
  const auto fail = [&]() {
    fields.invalid("chat_template", *value, "a string or a list of {name, template}");
  };
  if (!value->is_array()) fail();
  const std::string* chosen = nullptr;
  for (const json& entry : *value) {
    if (!entry.is_object()) fail();
    const auto name = entry.find("name"), text = entry.find("template");
    if (name == entry.end() || !name->is_string() || text == entry.end() || !text->is_string()) {
      fail();
    }
    if (chosen == nullptr || *name == "default") chosen = text->get_ptr<const std::string*>();
  }
  return chosen == nullptr ? "" : *chosen;
}

// A text, or the object of an added token.
std::optional<std::string> bos_token_of(const ConfigFields& fields) {
  const json* value = fields.find({"bos_token"});
  if (value == nullptr) return std::nullopt;
  const json* text = value;
  if (value->is_object() && value->contains("content")) text = &value->at("content");
  if (!text->is_string()) fields.invalid("bos_token", *value, "a string or an added token");
  return text->get<std::string>();
}

}  // namespace

void parse_tokenizer_config(std::string_view text, const std::string& file,
                            TokenizerSource& source) {
  static const json kNone = json::object();
  const json root = parse_json_object(text, file);
  const ConfigFields fields({&root}, kNone, file, "the tokenizer");
  source.add_bos = fields.boolean({"add_bos_token"}).value_or(false);
  source.bos_token = bos_token_of(fields);
  source.chat_template = chat_template_of(fields);
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
  const std::string template_file = folder + "/chat_template.jinja";
  if (is_file(template_file)) source.chat_template = read_text_file(template_file);
  return source;
}

}  // namespace quern::checkpoint
