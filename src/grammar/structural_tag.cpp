// Structural tags: text with places whose form is fixed. The compiler reads them; what stands in
// such a place is a schema, a pattern or a grammar, and goes through our own readers first.

#include <fmt/format.h>

#include "grammar/grammar.h"

namespace quern::grammar {
namespace {

class TagReader {
 public:
  explicit TagReader(const JsonStyle& style) : style_(style) {}

  void read(Json* format) {
    if (format->is_array()) {
      for (Json& part : *format) read(&part);
      return;
    }
    if (!format->is_object()) return;
    const Json* type = format->contains("type") ? &(*format)["type"] : nullptr;
    const std::string word = type && type->is_string() ? type->get<std::string>() : "";
    if (word == "json_schema") return read_schema(format);
    if (word == "regex") return read_regex(format);
    if (word == "grammar") return read_ebnf(format);
    for (const auto& [key, part] : format->items()) read(&part);
  }

 private:
  static Json grammar(std::string text) {
    return Json{{"type", "grammar"}, {"grammar", std::move(text)}};
  }

  // Tags that repeat a schema share its text's length, which counts.
  std::string counted(std::string text) {
    bytes_ += text.size();
    if (bytes_ > kMaxTagBytes) refuse_grammar("its schemas become too large a grammar");
    return text;
  }

  void read_schema(Json* format) {
    const auto schema = format->find("json_schema");
    if (schema == format->end()) refuse_grammar("a json_schema without json_schema");
    if (format->contains("style") && (*format)["style"] != "json") {
      refuse_grammar(fmt::format("the style {} is not served", (*format)["style"].dump()));
    }
    for (const char* word : {"any_order", "excludes"}) {
      if (format->contains(word)) refuse_grammar(fmt::format("{} is not served", word));
    }
    *format = grammar(counted(json_schema_grammar(schema->dump(), style_, Behind::kMore)));
  }

  void read_regex(Json* format) {
    const auto pattern = format->find("pattern");
    if (pattern == format->end() || !pattern->is_string()) {
      refuse_grammar("a regex without pattern");
    }
    *format = grammar(counted(regex_grammar(pattern->get<std::string>(), Behind::kMore)));
  }

  static void read_ebnf(Json* format) {
    const auto text = format->find("grammar");
    if (text == format->end() || !text->is_string()) {
      refuse_grammar("a grammar without grammar");
    }
    if (format->contains("syntax") && (*format)["syntax"] != "ebnf") {
      refuse_grammar("only the syntax ebnf is served");
    }
    check_ebnf(text->get<std::string>());
  }

  static constexpr size_t kMaxTagBytes = 4 << 20;
  const JsonStyle& style_;
  size_t bytes_ = 0;
};

// {"structures": [{"begin", "schema", "end"}], "triggers": []}
Json from_older_form(const Json& tag) {
  const auto triggers = tag.find("triggers");
  const Json& structures = tag["structures"];
  if (!structures.is_array() || triggers == tag.end()) {
    refuse_grammar("it has no lists of structures and triggers");
  }
  Json tags = Json::array();
  for (const Json& one : structures) {
    for (const char* name : {"begin", "schema", "end"}) {
      if (!one.is_object() || !one.contains(name)) {
        refuse_grammar(fmt::format("a structure without {}", name));
      }
    }
    tags.push_back({{"type", "tag"},
                    {"begin", one["begin"]},
                    {"content", {{"type", "json_schema"}, {"json_schema", one["schema"]}}},
                    {"end", one["end"]}});
  }
  return {
      {"type", "structural_tag"},
      {"format", {{"type", "triggered_tags"}, {"triggers", *triggers}, {"tags", std::move(tags)}}}};
}

}  // namespace

std::string read_structural_tag(std::string_view text, const JsonStyle& style) {
  Json tag = parse_bounded(text);
  if (!tag.is_object()) refuse_grammar("it is no JSON object");
  if (tag.contains("structures")) tag = from_older_form(tag);
  if (!tag.contains("format")) refuse_grammar("it has no format");
  tag["type"] = "structural_tag";
  TagReader(style).read(&tag["format"]);
  return tag.dump();
}

}  // namespace quern::grammar
