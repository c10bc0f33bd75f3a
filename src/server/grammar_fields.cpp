#include "server/grammar_fields.h"

#include <string>
#include <string_view>
#include <utility>

#include "base/error.h"
#include "base/errors/server.h"

namespace quern::server {
namespace {

using Kind = Grammar::Kind;

constexpr std::pair<const char*, Kind> kFields[] = {{"json_schema", Kind::kJsonSchema},
                                                    {"regex", Kind::kRegex},
                                                    {"ebnf", Kind::kEbnf},
                                                    {"structural_tag", Kind::kStructuralTag}};

// "$$ANY$$" is SGLang's word for any JSON.
Grammar schema_of(std::string text) {
  if (text == "$$ANY$$") return {Kind::kJsonObject, ""};
  return {Kind::kJsonSchema, std::move(text)};
}

Grammar read_json_schema(const Fields& format) {
  const Json* holder = format.find("json_schema");
  if (!holder) {
    throw Error(errors::kMissingField,
                {{"param", format.param("json_schema")}, {"expected", "it holds the schema"}});
  }
  if (!holder->is_object()) format.wrong_type("json_schema", "an object", *holder);
  const Fields fields(*holder, format.param("json_schema."));
  fields.text("name");
  fields.text("description");
  fields.boolean("strict");  // answers are always valid
  const Json* schema = fields.find("schema");
  if (!schema) {
    throw Error(errors::kMissingField,
                {{"param", fields.param("schema")}, {"expected", "a JSON schema is needed"}});
  }
  if (!schema->is_object() && !schema->is_boolean()) {
    fields.wrong_type("schema", "a JSON schema", *schema);
  }
  return {Kind::kJsonSchema, dump(*schema)};
}

std::optional<Grammar> read_response_format(const Fields& fields) {
  const Json* format = fields.find("response_format");
  if (!format) return std::nullopt;
  if (!format->is_object()) fields.wrong_type("response_format", "an object", *format);
  const Fields members(*format, fields.param("response_format."));
  const std::string type = members.text("type").value_or("");
  if (type == "text") return std::nullopt;
  if (type == "json_object") return Grammar{Kind::kJsonObject, ""};
  if (type == "json_schema") return read_json_schema(members);
  if (type == "structural_tag") return Grammar{Kind::kStructuralTag, dump(*format)};
  members.out_of_range("type", "text, json_object, json_schema or structural_tag", Json(type));
}

}  // namespace

std::optional<Grammar> read_grammar(const Fields& fields) {
  std::optional<Grammar> grammar = read_response_format(fields);
  for (const auto& [name, kind] : kFields) {
    const Json* value = fields.find(name);
    if (!value || (value->is_string() && value->get_ref<const std::string&>().empty())) continue;
    const bool json = kind == Kind::kJsonSchema || kind == Kind::kStructuralTag;
    const bool written = json && (value->is_object() || value->is_boolean());
    if (!value->is_string() && !written) {
      fields.wrong_type(name, json ? "JSON or its text" : "a string", *value);
    }
    if (grammar) throw Error(errors::kGrammarsConflict, {{"param", fields.param(name)}});
    std::string text = written ? dump(*value) : value->get<std::string>();
    grammar =
        kind == Kind::kJsonSchema ? schema_of(std::move(text)) : Grammar{kind, std::move(text)};
  }
  return grammar;
}

}  // namespace quern::server
