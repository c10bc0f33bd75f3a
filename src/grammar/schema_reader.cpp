#include "grammar/schema_reader.h"

#include <fmt/format.h>

#include <algorithm>

namespace quern::grammar {
namespace {

// Words that a grammar does not hold to, each with the type that it speaks of.
constexpr std::pair<const char*, unsigned> kRefused[] = {
    {"not", kAllTypes},
    {"if", kAllTypes},
    {"$dynamicRef", kAllTypes},
    {"$recursiveRef", kAllTypes},
    {"dependencies", kObject},
    {"dependentRequired", kObject},
    {"dependentSchemas", kObject},
    {"contains", kArray},
};

std::int64_t count_values(const Json& json) {
  std::int64_t count = 1;
  if (json.is_structured()) {
    for (const Json& part : json) count += count_values(part);
  }
  return count;
}

}  // namespace

int SchemaReader::root() {
  const int rule = rule_of(root_, {});
  if (!grammar_.ebnf().is_possible(rule)) refuse_grammar("#: nothing satisfies it");
  return rule;
}

void SchemaReader::impossible(const At& at, std::string_view why) const {
  if (!at.made) refuse_schema(at.place, why);
}

void SchemaReader::check_size() const {
  if (grammar_.ebnf().rules() > kMaxRules) {
    refuse_grammar(fmt::format("it becomes more than {} rules", kMaxRules));
  }
}

const Json& SchemaReader::keep(Json schema, const At& at) {
  kept_values_ += count_values(schema);
  if (kept_values_ > 10 * kMaxSchemaValues) {
    refuse_schema(at.place, "joining its parts makes too large a schema");
  }
  return kept_.emplace_back(std::move(schema));
}

int SchemaReader::rule_of(const Json& schema, const At& at) {
  const std::pair key(&schema, at.taken_for);
  const auto found = rules_.find(key);
  if (found != rules_.end()) return found->second;
  if (at.depth > kMaxSchemaDepth) {
    refuse_schema(at.place, fmt::format("schemas within schemas, more than {}", kMaxSchemaDepth));
  }
  const int rule = grammar_.ebnf().add_rule();
  check_size();
  rules_.emplace(key, rule);
  fill(rule, schema, at);
  return rule;
}

void SchemaReader::refuse_unknown_meaning(const Json& schema, const At& at) const {
  const unsigned types = types_of(schema, at.place);
  for (const auto& [word, speaks_of] : kRefused) {
    if (schema.contains(word) && types & speaks_of) {
      refuse_schema(place_of(at.place, word), "a grammar cannot hold to this keyword");
    }
  }
  const Json* unique = member(schema, "uniqueItems");
  if (unique && types & kArray && !(unique->is_boolean() && !unique->get<bool>())) {
    refuse_schema(place_of(at.place, "uniqueItems"), "a grammar cannot hold to this keyword");
  }
}

void SchemaReader::fill(int rule, const Json& schema, const At& at) {
  Ebnf& ebnf = grammar_.ebnf();
  if (schema.is_boolean()) {
    if (schema.get<bool>()) return ebnf.add(rule, {Part::ref(grammar_.value())});
    return impossible(at, "the schema false");
  }
  if (!schema.is_object()) refuse_schema(at.place, "a schema is an object or a boolean");
  if (fill_combined(rule, schema, at)) return;
  refuse_unknown_meaning(schema, at);
  if (schema.contains("enum") || schema.contains("const")) return fill_values(rule, schema, at);
  const unsigned types = types_of(schema, at.place);
  if (!asserts(schema)) return ebnf.add(rule, {Part::ref(grammar_.value())});
  for (unsigned type = 1; type <= kNull; type <<= 1) {
    if (type == kInteger && types & kNumber) continue;
    if (types & type) fill_type(rule, static_cast<Types>(type), schema, at);
  }
}

// $ref, allOf, anyOf and oneOf. False where there is none.
bool SchemaReader::fill_combined(int rule, const Json& schema, const At& at) {
  Ebnf& ebnf = grammar_.ebnf();
  if (const Json* ref = member(schema, "$ref")) {
    if (!ref->is_string()) refuse_schema(place_of(at.place, "$ref"), "it must be a string");
    const auto& pointer = ref->get_ref<const std::string&>();
    const Json& target = pointed(root_, pointer, at.place);
    constexpr std::string_view kRef[] = {"$ref"};
    if (!asserts(schema, kRef)) {
      ebnf.add(rule, {Part::ref(rule_of(target, At{pointer, at.depth + 1, false, at.taken_for}))});
      return true;
    }
    Json rest = schema;
    rest.erase("$ref");
    const Json& both = keep(joined(rest, target, at.place), at);
    ebnf.add(rule, {Part::ref(rule_of(both, at.joined(at.place)))});
    return true;
  }
  if (const Json* parts = member(schema, "allOf")) {
    const std::string place = place_of(at.place, "allOf");
    if (!parts->is_array() || parts->empty()) refuse_schema(place, "it must list schemas");
    Json whole = schema;
    whole.erase("allOf");
    for (size_t i = 0; i < parts->size(); ++i) {
      const Json* part = &(*parts)[i];
      const std::string here = place_of(at.place, "allOf", i);
      for (int hops = 0; part->is_object() && part->contains("$ref") && part->size() == 1; ++hops) {
        const Json& ref = (*part)["$ref"];
        if (!ref.is_string() || hops > kMaxSchemaDepth) refuse_schema(here, "$ref leads nowhere");
        part = &pointed(root_, ref.get<std::string>(), here);
      }
      whole = joined(whole, *part, here);
    }
    const At made = parts->size() > 1 ? at.joined(at.place) : at.option(at.place);
    ebnf.add(rule, {Part::ref(rule_of(keep(std::move(whole), at), made))});
    return true;
  }
  for (const char* word : {"anyOf", "oneOf"}) {
    if (!schema.contains(word)) continue;
    fill_options(rule, schema, word, at);
    return true;
  }
  return false;
}

void SchemaReader::fill_options(int rule, const Json& schema, const char* word, const At& at) {
  const Json& options = schema[word];
  const std::string place = place_of(at.place, word);
  if (!options.is_array() || options.empty()) refuse_schema(place, "it must list schemas");
  if (std::string_view(word) == "oneOf") {
    if (options.size() > 100) refuse_schema(place, "it lists more than 100 schemas; use anyOf");
    for (size_t i = 0; i < options.size(); ++i) {
      for (size_t j = i + 1; j < options.size(); ++j) {
        if (apart(root_, options[i], options[j])) continue;
        refuse_schema(place,
                      fmt::format("schemas {} and {} may both fit one value; use anyOf, or a "
                                  "required property whose values differ",
                                  i, j));
      }
    }
  }
  Json rest = schema;
  rest.erase(word);
  const bool alone = !asserts(rest);
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string here = place_of(at.place, word, i);
    int option = 0;
    if (alone) {
      option = rule_of(options[i], at.option(here));
    } else {
      const Json* part = &options[i];
      const Json* ref = member(*part, "$ref");
      if (ref && ref->is_string() && part->size() == 1) {
        part = &pointed(root_, ref->get<std::string>(), here);
      }
      if (!share_types(rest, *part, here)) continue;
      option = rule_of(keep(joined(rest, *part, here), at), at.joined(here));
    }
    grammar_.ebnf().add(rule, {Part::ref(option)});
  }
}

void SchemaReader::fill_values(int rule, const Json& schema, const At& at) {
  const std::string place = place_of(at.place, schema.contains("enum") ? "enum" : "const");
  Json values = Json::array();
  if (const Json* listed = member(schema, "enum")) {
    if (!listed->is_array()) refuse_schema(place, "it must list values");
    if (listed->empty()) return impossible({place, at.depth, at.made}, "it lists no value");
    values = *listed;
  }
  if (const Json* value = member(schema, "const")) {
    if (!values.empty() && std::find(values.begin(), values.end(), *value) == values.end()) {
      return impossible(at, "const is no value of enum");
    }
    values = Json::array({*value});
  }
  const unsigned types = schema.contains("type") ? types_of(schema, at.place) : +kAllTypes;
  bool any = false;
  for (const Json& value : values) {
    const unsigned type = type_of_value(value);
    if (!(type & types)) continue;
    for (const Types each : {kString, kNumber, kArray, kObject}) {
      const std::string_view word = type & each ? keyword_in(schema, each) : "";
      if (word.empty()) continue;
      refuse_schema(place_of(at.place, word), "it stands beside the values that are listed");
    }
    const bool plain = at.taken_for != 0 && value.is_string();
    if (plain && !is_plain_text(value, at)) continue;
    any = true;
    grammar_.ebnf().add(
        rule, {Part::of(plain ? literal_text(value.get<std::string>()) : grammar_.literal(value))});
  }
  if (!any) impossible(at, "no listed value has an allowed type and can be written");
}

void SchemaReader::fill_type(int rule, Types type, const Json& schema, const At& at) {
  Ebnf& ebnf = grammar_.ebnf();
  switch (type) {
    case kNull: return ebnf.add(rule, {Part::of(grammar_.literal(Json()))});
    case kBoolean:
      ebnf.add(rule, {Part::of(grammar_.literal(true))});
      return ebnf.add(rule, {Part::of(grammar_.literal(false))});
    case kString: return ebnf.add(rule, {Part::ref(string_rule(schema, at))});
    case kInteger: return ebnf.add(rule, {Part::ref(number_rule(schema, true, at))});
    case kNumber: return ebnf.add(rule, {Part::ref(number_rule(schema, false, at))});
    case kArray: return ebnf.add(rule, {Part::ref(array_rule(schema, at))});
    default: return ebnf.add(rule, {Part::ref(object_rule(schema, at))});
  }
}

int SchemaReader::array_rule(const Json& schema, const At& at) {
  Ebnf& ebnf = grammar_.ebnf();
  const Json* items = member(schema, "items");
  const Json* first = member(schema, "prefixItems");
  const char* first_word = "prefixItems";
  const char* rest_word = "items";
  if (items && items->is_array()) {  // an older draft
    first = items;
    first_word = "items";
    rest_word = "additionalItems";
    items = member(schema, rest_word);
  }
  if (!items && schema.contains("unevaluatedItems"))
    items = member(schema, rest_word = "unevaluatedItems");
  if (first && !first->is_array())
    refuse_schema(place_of(at.place, first_word), "it must list schemas");
  const std::int64_t min = count_of(schema, "minItems", 0, at.place);
  const std::int64_t max = count_of(schema, "maxItems", kNoMaximum, at.place);
  if (max != kNoMaximum && min > max) {
    impossible(at, "minItems is more than maxItems");
    return ebnf.add_rule();
  }
  const auto fixed = first ? static_cast<std::int64_t>(first->size()) : 0;
  const auto one = [&](const Json& item, std::string place) {
    return ebnf.add_rule(
        {Part::ref(rule_of(item, at.inside(std::move(place)))), Part::ref(grammar_.space())});
  };
  // What stands behind the items so far, from the last on. Behind listed items no more are written,
  // unless the schema asks for some.
  int tail = ebnf.add_rule();
  const bool more = items || fixed == 0 || min > fixed;
  const bool none = items && items->is_boolean() && !items->get<bool>();
  const std::int64_t least = std::max<std::int64_t>(min - fixed, 0);
  const std::int64_t most = max == kNoMaximum ? kNoMaximum : std::max<std::int64_t>(max - fixed, 0);
  if (least == 0) ebnf.add(tail, {});
  if (more && !none && most != 0) {
    static const Json kAnything = true;
    const int item = one(items ? *items : kAnything, place_of(at.place, rest_word));
    const int next = ebnf.add_rule({Part::ref(grammar_.comma()), Part::ref(item)});
    const auto but_one = [](std::int64_t count) { return count > 0 ? count - 1 : count; };
    ebnf.add(tail, {Part::ref(fixed == 0 ? item : next),
                    ebnf.times(Part::ref(next), but_one(least), but_one(most))});
  }
  for (std::int64_t i = fixed; i-- > 0;) {
    const int here = ebnf.add_rule();
    if (i >= min) ebnf.add(here, {});
    const auto index = static_cast<size_t>(i);
    if (max == kNoMaximum || i < max) {
      const int item = one((*first)[index], place_of(at.place, first_word, index));
      Alternative with;
      if (i > 0) with.push_back(Part::ref(grammar_.comma()));
      with.push_back(Part::ref(item));
      with.push_back(Part::ref(tail));
      ebnf.add(here, std::move(with));
    }
    tail = here;
  }
  return grammar_.wrapped("[", Part::ref(tail), "]");
}

}  // namespace quern::grammar
