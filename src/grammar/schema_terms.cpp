#include "grammar/schema_terms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace quern::grammar {
namespace {

constexpr std::pair<std::string_view, Types> kTypeNames[] = {
    {"string", kString}, {"number", kNumber}, {"integer", kInteger}, {"boolean", kBoolean},
    {"object", kObject}, {"array", kArray},   {"null", kNull}};

constexpr std::string_view kStringWords[] = {"minLength", "maxLength", "pattern"};
constexpr std::string_view kNumberWords[] = {"minimum", "maximum", "exclusiveMinimum",
                                             "exclusiveMaximum", "multipleOf"};
constexpr std::string_view kArrayWords[] = {
    "items",    "prefixItems", "additionalItems", "unevaluatedItems", "minItems",
    "maxItems", "uniqueItems", "contains",        "minContains",      "maxContains"};
constexpr std::string_view kObjectWords[] = {
    "properties",    "required",          "patternProperties", "additionalProperties",
    "propertyNames", "minProperties",     "maxProperties",     "unevaluatedProperties",
    "dependencies",  "dependentRequired", "dependentSchemas"};
// That speak of any value.
constexpr std::string_view kGeneralWords[] = {
    "type",  "enum",  "const", "$ref", "$dynamicRef", "$recursiveRef", "allOf",
    "anyOf", "oneOf", "not",   "if",   "then",        "else"};

bool is_among(std::string_view word, std::span<const std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

unsigned named_type(const Json& name, const std::string& place) {
  if (name.is_string()) {
    for (const auto& [word, type] : kTypeNames) {
      if (name.get_ref<const std::string&>() == word) return type;
    }
  }
  refuse_schema(place, "a type is one of string, number, integer, boolean, object, array, null");
}

std::string unescaped(std::string_view token) {
  std::string text;
  for (size_t i = 0; i < token.size(); ++i) {
    const auto code = i + 2 < token.size() && token[i] == '%' ? std::string(token.substr(i + 1, 2))
                                                              : std::string();
    if (!code.empty() && code.find_first_not_of("0123456789abcdefABCDEF") == code.npos) {
      text += static_cast<char>(std::stoi(code, nullptr, 16));
      i += 2;
    } else {
      text += token[i];
    }
  }
  for (const auto& [from, to] : {std::pair{"~1", "/"}, std::pair{"~0", "~"}}) {
    for (size_t at = 0; (at = text.find(from, at)) != text.npos; ++at) text.replace(at, 2, to);
  }
  return text;
}

}  // namespace

void refuse_schema(const std::string& place, std::string_view why) {
  refuse_grammar(fmt::format("{}: {}", place, why));
}

std::string place_of(const std::string& place, std::string_view key) {
  std::string token;
  for (const char c : key.substr(0, 100)) {
    token += c == '~' ? "~0" : c == '/' ? "~1" : std::string(1, c);
  }
  return place + "/" + token;
}

std::string place_of(const std::string& place, std::string_view key, size_t index) {
  return fmt::format("{}/{}", place_of(place, key), index);
}

const Json* member(const Json& schema, const char* name) {
  if (!schema.is_object()) return nullptr;
  const auto found = schema.find(name);
  return found == schema.end() ? nullptr : &*found;
}

std::span<const std::string_view> keywords_of(Types type) {
  switch (type) {
    case kString: return kStringWords;
    case kNumber:
    case kInteger: return kNumberWords;
    case kArray: return kArrayWords;
    case kObject: return kObjectWords;
    default: return {};
  }
}

std::string_view keyword_in(const Json& schema, Types type) {
  for (const std::string_view word : keywords_of(type)) {
    if (schema.contains(word)) return word;
  }
  return "";
}

bool asserts(const Json& schema, std::span<const std::string_view> but) {
  if (!schema.is_object()) return true;
  for (const auto& [key, value] : schema.items()) {
    if (is_among(key, but)) continue;
    if (is_among(key, kGeneralWords)) return true;
    for (const Types type : {kString, kNumber, kArray, kObject}) {
      if (is_among(key, keywords_of(type))) return true;
    }
  }
  return false;
}

unsigned types_of(const Json& schema, const std::string& place) {
  if (const Json* type = member(schema, "type")) {
    const std::string at = place_of(place, "type");
    if (!type->is_array()) return named_type(*type, at);
    if (type->empty()) refuse_schema(at, "no type is allowed");
    unsigned all = 0;
    for (const Json& name : *type) all |= named_type(name, at);
    return all;
  }
  unsigned spoken_of = 0;
  for (const Types type : {kString, kNumber, kArray, kObject}) {
    if (!keyword_in(schema, type).empty()) spoken_of |= type;
  }
  return spoken_of ? spoken_of : kAllTypes;
}

unsigned type_of_value(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return kNull;
    case Json::value_t::object: return kObject;
    case Json::value_t::array: return kArray;
    case Json::value_t::string: return kString;
    case Json::value_t::boolean: return kBoolean;
    case Json::value_t::number_float: {
      const double number = value.get<double>();
      return number == std::floor(number) ? kNumber | kInteger : kNumber;
    }
    default: return kNumber | kInteger;
  }
}

const Json& pointed(const Json& root, const std::string& pointer, const std::string& place) {
  const std::string at = place_of(place, "$ref");
  if (pointer == "#") return root;
  if (pointer.substr(0, 2) != "#/") {
    refuse_schema(at, fmt::format("\"{}\" is not a pointer into this schema (#/…)", pointer));
  }
  const Json* here = &root;
  for (size_t begin = 2; begin <= pointer.size();) {
    const size_t end = std::min(pointer.find('/', begin), pointer.size());
    const std::string token = unescaped(std::string_view(pointer).substr(begin, end - begin));
    const Json* next = nullptr;
    if (here->is_object()) {
      next = member(*here, token.c_str());
    } else if (here->is_array() && !token.empty() && token.size() < 6 &&
               token.find_first_not_of("0123456789") == token.npos) {
      const size_t index = std::stoul(token);
      if (index < here->size()) next = &(*here)[index];
    }
    if (!next) refuse_schema(at, fmt::format("\"{}\" leads nowhere", pointer));
    here = next;
    begin = end + 1;
  }
  return *here;
}

std::int64_t count_of(const Json& schema, const char* name, std::int64_t otherwise,
                      const std::string& place) {
  const Json* value = member(schema, name);
  if (!value) return otherwise;
  const std::string at = place_of(place, name);
  const double number = value->is_number() ? value->get<double>() : -1;
  if (!(number >= 0) || number != std::floor(number)) {
    refuse_schema(at, "it must be an integer from 0 on");
  }
  if (number > static_cast<double>(kMaxJsonRepeat)) {
    refuse_schema(at, fmt::format("{} is more than {}", value->dump(), kMaxJsonRepeat));
  }
  return static_cast<std::int64_t>(number);
}

namespace {

unsigned common_types(const Json& left, const Json& right, const std::string& place) {
  const unsigned left_types = types_of(left, place), right_types = types_of(right, place);
  unsigned types = left_types & right_types;
  // integer is part of number
  if ((left_types & kNumber && right_types & kInteger) ||
      (left_types & kInteger && right_types & kNumber)) {
    types |= kInteger;
  }
  return types;
}

void join_types(Json* both, const Json& right, const std::string& place) {
  const unsigned types = common_types(*both, right, place);
  Json names = Json::array();
  for (const auto& [word, type] : kTypeNames) {
    if (types & type && !(type == kInteger && types & kNumber)) names.push_back(word);
  }
  if (names.empty()) refuse_schema(place, "its parts allow no type in common");
  (*both)["type"] = std::move(names);
}

void join_values(Json* both, const Json& right) {
  Json common = Json::array();
  const auto all = [](const Json& schema) {
    return schema.contains("const") ? Json::array({schema["const"]}) : schema["enum"];
  };
  for (const Json& value : all(*both)) {
    const Json others = all(right);
    if (std::find(others.begin(), others.end(), value) != others.end()) common.push_back(value);
  }
  both->erase("const");
  (*both)["enum"] = std::move(common);
}

bool closed(const Json& schema) {
  for (const char* name : {"additionalProperties", "unevaluatedProperties"}) {
    const Json* more = member(schema, name);
    if (more && !(more->is_boolean() && more->get<bool>()) &&
        !(more->is_object() && more->empty())) {
      return true;
    }
  }
  return false;
}

void join_properties(Json* both, const Json& right) {
  Json& properties = (*both)["properties"];
  if (!properties.is_object()) properties = Json::object();
  for (const auto& [name, schema] : right["properties"].items()) {
    const auto there = properties.find(name);
    if (there == properties.end()) {
      properties[name] = schema;
    } else if (*there != schema) {
      *there = Json{{"allOf", Json::array({*there, schema})}};
    }
  }
}

}  // namespace

bool share_types(const Json& left, const Json& right, const std::string& place) {
  const bool typed =
      left.is_object() && right.is_object() && (left.contains("type") || right.contains("type"));
  return !typed || common_types(left, right, place) != 0;
}

Json joined(const Json& left, const Json& right, const std::string& place) {
  for (const Json* one : {&left, &right}) {
    if (one->is_boolean()) return one->get<bool>() ? (one == &left ? right : left) : Json(false);
    if (!one->is_object()) refuse_schema(place, "a schema is an object or a boolean");
  }
  const bool objects = left.contains("properties") || right.contains("properties");
  if (objects && (closed(left) || closed(right)) && left != right) {
    refuse_schema(place,
                  "additionalProperties in one part of a schema that is joined from several");
  }
  Json both = left;
  if (types_of(left, place) != types_of(right, place)) {
    // Each side's own words say what it speaks of, so that a type is written only where one is.
    if (left.contains("type") || right.contains("type")) join_types(&both, right, place);
  }
  const auto values = [](const Json& schema) {
    return schema.contains("enum") || schema.contains("const");
  };
  const bool both_have_values = values(left) && values(right);
  if (both_have_values) join_values(&both, right);
  for (const auto& [key, value] : right.items()) {
    const auto there = both.find(key);
    const auto is = [&](std::initializer_list<std::string_view> names) {
      return std::find(names.begin(), names.end(), key) != names.end();
    };
    if (key == "type" || (both_have_values && is({"enum", "const"}))) continue;
    if (key == "properties" && value.is_object()) {
      join_properties(&both, right);
    } else if (there == both.end()) {
      both[key] = value;
    } else if (*there == value || !asserts(Json{{key, value}})) {
      continue;
    } else if (key == "required" && there->is_array() && value.is_array()) {
      for (const Json& name : value) {
        if (std::find(there->begin(), there->end(), name) == there->end()) there->push_back(name);
      }
    } else if (is({"minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties"}) &&
               there->is_number() && value.is_number()) {
      if (value > *there) *there = value;
    } else if (is({"maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties"}) &&
               there->is_number() && value.is_number()) {
      if (value < *there) *there = value;
    } else if (key == "items" || key == "additionalProperties") {
      *there = Json{{"allOf", Json::array({*there, value})}};
    } else if (key == "allOf" && there->is_array() && value.is_array()) {
      for (const Json& part : value) there->push_back(part);
    } else {
      refuse_schema(place, fmt::format("two different values of {} cannot be joined", key));
    }
  }
  return both;
}

namespace {

// A schema's own words, through references that stand alone.
const Json& resolved(const Json& root, const Json& schema) {
  const Json* here = &schema;
  for (int i = 0; i < kMaxSchemaDepth; ++i) {
    const Json* ref = member(*here, "$ref");
    if (!ref || !ref->is_string()) break;
    here = &pointed(root, ref->get<std::string>(), "#");
  }
  return *here;
}

// The values that a schema lists, where it does.
std::vector<Json> listed(const Json& schema) {
  if (const Json* value = member(schema, "const")) return {*value};
  const Json* values = member(schema, "enum");
  if (!values || !values->is_array()) return {};
  return {values->begin(), values->end()};
}

bool requires_member(const Json& schema, const std::string& name) {
  const Json* required = member(schema, "required");
  return required && required->is_array() &&
         std::find(required->begin(), required->end(), Json(name)) != required->end();
}

}  // namespace

bool apart(const Json& root, const Json& left, const Json& right) {
  const Json& one = resolved(root, left);
  const Json& other = resolved(root, right);
  if (!one.is_object() || !other.is_object()) return false;
  const auto plain = [](const Json& schema) {
    return !schema.contains("anyOf") && !schema.contains("oneOf") && !schema.contains("allOf");
  };
  const auto ones = listed(one), others = listed(other);
  if (!ones.empty() && !others.empty()) {
    return std::none_of(ones.begin(), ones.end(), [&](const Json& value) {
      return std::find(others.begin(), others.end(), value) != others.end();
    });
  }
  const auto types = [&](const Json& schema, const std::vector<Json>& values) {
    unsigned all = 0;
    if (values.empty()) {
      all = plain(schema) ? (schema.contains("type") ? types_of(schema, "#") : +kAllTypes)
                          : kAllTypes;
      if (all & kInteger) all |= kNumber;
      return all;
    }
    for (const Json& value : values) all |= type_of_value(value) & ~kInteger;
    return all;
  };
  const unsigned common = types(one, ones) & types(other, others) & ~kInteger;
  if (common == 0) return true;
  if (common != kObject) return false;
  const Json* properties = member(one, "properties");
  const Json* more = member(other, "properties");
  if (!properties || !more || !properties->is_object()) return false;
  for (const auto& [name, schema] : properties->items()) {
    const Json* same = member(*more, name.c_str());
    if (!same || !requires_member(one, name) || !requires_member(other, name)) continue;
    const auto here = listed(resolved(root, schema)), there = listed(resolved(root, *same));
    if (here.empty() || there.empty()) continue;
    const bool shared = std::any_of(here.begin(), here.end(), [&](const Json& value) {
      return std::find(there.begin(), there.end(), value) != there.end();
    });
    if (!shared) return true;
  }
  return false;
}

}  // namespace quern::grammar
