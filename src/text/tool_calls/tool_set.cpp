#include "text/tool_calls/tool_set.h"

#include <simdjson.h>

#include <utility>

#include "text/tool_calls/json_scanner.h"

namespace quern::text {
namespace {

using simdjson::dom::array;
using simdjson::dom::element;
using simdjson::dom::object;

constexpr int kMaxLevels = 8;           // of schemas within schemas, and of references
constexpr int kMaxSchemas = 1 << 18;    // looked at, of all tools
constexpr int kMaxReferences = 1024;    // followed, of all tools; each searches an object
constexpr std::size_t kMaxDepth = 200;  // of the JSON

TypeMask type_named(std::string_view name) {
  constexpr std::pair<std::string_view, TypeMask> kNames[] = {
      {"string", kStringType},   {"integer", kIntegerType}, {"number", kNumberType},
      {"boolean", kBooleanType}, {"null", kNullType},       {"object", kObjectType},
      {"array", kArrayType},
  };
  for (const auto& [known, type] : kNames) {
    if (name == known) return type;
  }
  return 0;
}

TypeMask type_of(const element& value) {
  switch (value.type()) {
    case simdjson::dom::element_type::STRING: return kStringType;
    case simdjson::dom::element_type::INT64:
    case simdjson::dom::element_type::UINT64: return kIntegerType;
    case simdjson::dom::element_type::DOUBLE: return kNumberType;
    case simdjson::dom::element_type::BOOL: return kBooleanType;
    case simdjson::dom::element_type::NULL_VALUE: return kNullType;
    case simdjson::dom::element_type::OBJECT: return kObjectType;
    default: return kArrayType;
  }
}

class SchemaReader {
 public:
  // `root` is what "#" of a $ref means.
  TypeMask types(const element& schema, const element& root) {
    root_ = root;
    return types(schema, 0);
  }

 private:
  TypeMask types(const element& schema, int level) {
    object members;
    if (level > kMaxLevels || --schemas_left_ < 0 || schema.get(members) != simdjson::SUCCESS)
      return 0;
    TypeMask mask = 0;
    for (const auto& [key, value] : members) {
      std::string_view text;
      array list;
      if (key == "type") {
        if (value.get(text) == simdjson::SUCCESS) mask |= type_named(text);
        if (value.get(list) == simdjson::SUCCESS) {
          for (const element one : list) {
            if (one.get(text) == simdjson::SUCCESS) mask |= type_named(text);
          }
        }
      } else if (key == "const") {
        mask |= type_of(value);
      } else if (key == "enum" && value.get(list) == simdjson::SUCCESS) {
        for (const element one : list) mask |= type_of(one);
      } else if ((key == "anyOf" || key == "oneOf" || key == "allOf") &&
                 value.get(list) == simdjson::SUCCESS) {
        for (const element one : list) mask |= types(one, level + 1);
      } else if (key == "$ref" && value.get(text) == simdjson::SUCCESS && text.starts_with("#/")) {
        element target;
        if (--references_left_ < 0) continue;
        if (root_.at_pointer(text.substr(1)).get(target) == simdjson::SUCCESS) {
          mask |= types(target, level + 1);
        }
      }
    }
    return mask;
  }

  element root_;
  int schemas_left_ = kMaxSchemas, references_left_ = kMaxReferences;
};

std::string_view trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

bool fits(JsonKind kind, TypeMask types) {
  switch (kind) {
    case JsonKind::kNone: return false;
    case JsonKind::kString: return false;  // quotes of a text are the text's own
    case JsonKind::kInteger: return (types & (kIntegerType | kNumberType)) != 0;
    case JsonKind::kNumber: return (types & (kNumberType | kIntegerType)) != 0;
    case JsonKind::kBoolean: return (types & kBooleanType) != 0;
    case JsonKind::kNull: return (types & kNullType) != 0;
    case JsonKind::kObject: return (types & kObjectType) != 0;
    case JsonKind::kArray: return (types & kArrayType) != 0;
  }
  return false;
}

}  // namespace

ToolSet::ToolSet(std::string_view json) {
  simdjson::dom::parser parser;
  element document;
  array tools;
  if (parser.allocate(std::max<std::size_t>(json.size(), 64), kMaxDepth) != simdjson::SUCCESS ||
      parser.parse(json.data(), json.size()).get(document) != simdjson::SUCCESS ||
      document.get(tools) != simdjson::SUCCESS) {
    return;
  }
  SchemaReader reader;
  for (const element tool : tools) {
    element function;
    if (tool["function"].get(function) != simdjson::SUCCESS) function = tool;
    std::string_view name;
    if (function["name"].get(name) != simdjson::SUCCESS || name.empty()) continue;
    Parameters& parameters = functions_[std::string(name)];
    element schema;
    object properties;
    if (function["parameters"].get(schema) != simdjson::SUCCESS ||
        schema["properties"].get(properties) != simdjson::SUCCESS) {
      continue;
    }
    for (const auto& [key, value] : properties) {
      parameters.insert_or_assign(std::string(key), reader.types(value, schema));
    }
  }
}

TypeMask ToolSet::types(std::string_view function, std::string_view parameter) const {
  const auto found = functions_.find(function);
  if (found == functions_.end()) return 0;
  const auto type = found->second.find(parameter);
  return type == found->second.end() ? TypeMask{0} : type->second;
}

std::string value_as_json(std::string_view text, TypeMask types) {
  if (types == kStringType) return json_quoted(text);
  const std::string_view value = trimmed(text);
  const JsonKind kind = json_kind(value);
  const bool known = types != 0;
  if (known ? fits(kind, types) : kind != JsonKind::kNone) return std::string(value);
  constexpr std::pair<std::string_view, std::string_view> kPython[] = {
      {"True", "true"}, {"False", "false"}, {"None", "null"}};
  for (const auto& [python, word] : kPython) {
    if (value == python && (!known || fits(json_kind(word), types))) return std::string(word);
  }
  if (known && (types & kStringType) == 0 && kind != JsonKind::kNone) return std::string(value);
  return json_quoted(text);
}

}  // namespace quern::text
