#include "engine/conversation_file.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "checkpoint/config_fields.h"
#include "checkpoint/json.h"
#include "checkpoint/mapped_file.h"

namespace quern::engine {
namespace {

using nlohmann::json;

// What stands between a role's words and its message, after each turn, and where the answer is to
// begin.
struct Style {
  std::string_view name, before_message, after_turn, before_answer;
};

constexpr Style kStyles[] = {
    {"CHATML", "\n", "\n", "\n"},
    {"ADD_COLON_SINGLE", ": ", "", ":"},
    {"ADD_COLON_SPACE_SINGLE", ": ", "", ": "},
    {"ADD_NEW_LINE_SINGLE", "\n", "", "\n"},
    {"NO_COLON_SINGLE", "", "", ""},
};

// A literal of Jinja.
std::string jinja_text(std::string_view text) {
  std::string literal = "'";
  for (const char c : text) {
    switch (c) {
      case '\\': literal += "\\\\"; break;
      case '\'': literal += "\\'"; break;
      case '\n': literal += "\\n"; break;
      default: literal += c;
    }
  }
  return literal + "'";
}

std::string required_word(const checkpoint::ConfigFields& fields, std::string_view name) {
  const auto word = fields.word({name});
  if (!word) fields.missing(name);
  return *word;
}

std::vector<std::string> stop_strings(const checkpoint::ConfigFields& fields) {
  const json* value = fields.find({"stop_str"});
  if (value == nullptr) return {};
  const json list = value->is_array() ? *value : json::array({*value});
  std::vector<std::string> stop;
  for (const json& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty()) {
      fields.invalid("stop_str", *value, "a text that is not empty, or several");
    }
    stop.push_back(text.get<std::string>());
  }
  return stop;
}

const Style& style_of(const checkpoint::ConfigFields& fields) {
  const std::string name = required_word(fields, "sep_style");
  for (const Style& style : kStyles) {
    if (style.name == name) return style;
  }
  std::string names;
  for (const Style& style : kStyles) {
    names.append(names.empty() ? "" : ", ").append(style.name);
  }
  fields.invalid("sep_style", name, "one of " + names);
}

}  // namespace

ConversationFile read_conversation_file(const std::string& path) {
  const json object = checkpoint::parse_json_object(checkpoint::read_text_file(path), path);
  const json none = json::object();
  const checkpoint::ConfigFields fields({&object}, none, path, "");
  const Style& style = style_of(fields);
  const std::string end = fields.word({"sep"}).value_or("\n") + std::string(style.after_turn);
  const std::string system = required_word(fields, "system") + "\n";
  const std::string user = required_word(fields, "user");
  const std::string assistant = required_word(fields, "assistant");
  const std::string said = fields.word({"system_message"}).value_or("");
  // SGLang puts no separator between the system's words and the first turn in this style.
  const std::string system_end = style.name == "NO_COLON_SINGLE" ? "" : end;
  const auto turn = [&](const std::string& words) {
    return fmt::format(
        "{{% if m.content %}}{{{{ {} + m.content + {} }}}}{{% else %}}{{{{ {} }}}}{{% endif %}}",
        jinja_text(words + std::string(style.before_message)), jinja_text(end),
        jinja_text(words + std::string(style.before_answer)));
  };
  ConversationFile file;
  file.stop = stop_strings(fields);
  file.jinja = fmt::format(
      "{{%- set ns = namespace(system={}) -%}}"
      "{{%- for m in messages if m.role == 'system' %}}{{% set ns.system = m.content %}}{{% endfor "
      "-%}}"
      "{{{{ {} + ns.system + {} }}}}"
      "{{%- for m in messages -%}}"
      "{{%- if m.role == 'user' -%}}{}{{%- elif m.role == 'assistant' -%}}{}"
      "{{%- elif m.role != 'system' -%}}{{{{ raise_exception('Unknown role: ' ~ m.role) }}}}"
      "{{%- endif -%}}{{%- endfor -%}}"
      "{{%- if add_generation_prompt -%}}{{{{ {} }}}}{{%- endif -%}}",
      jinja_text(said), jinja_text(system), jinja_text(system_end), turn(user), turn(assistant),
      jinja_text(assistant + std::string(style.before_answer)));
  return file;
}

}  // namespace quern::engine
