// Of a JSON schema's reader: objects.

#include <fmt/format.h>

#include <algorithm>

#include "grammar/schema_reader.h"

namespace quern::grammar {
namespace {

bool is_false(const Json* schema) { return schema && schema->is_boolean() && !schema->get<bool>(); }

std::vector<std::string> required_names(const Json& schema, const std::string& place) {
  std::vector<std::string> names;
  const Json* required = member(schema, "required");
  if (!required) return names;
  const bool texts =
      required->is_array() && std::all_of(required->begin(), required->end(),
                                          [](const Json& name) { return name.is_string(); });
  if (!texts) refuse_schema(place_of(place, "required"), "it must list names");
  for (const Json& name : *required) {
    if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
  }
  return names;
}

}  // namespace

int SchemaReader::object_rule(const Json& schema, const At& at) {
  Ebnf& ebnf = grammar_.ebnf();
  const Json* properties = member(schema, "properties");
  if (properties && !properties->is_object()) {
    refuse_schema(place_of(at.place, "properties"), "it must be an object of schemas");
  }
  const Json* patterns = member(schema, "patternProperties");
  if (patterns && !patterns->is_object()) {
    refuse_schema(place_of(at.place, "patternProperties"), "it must be an object of schemas");
  }
  if (patterns && patterns->empty()) patterns = nullptr;
  const Json* naming = member(schema, "propertyNames");
  const char* more_word =
      schema.contains("additionalProperties") ? "additionalProperties" : "unevaluatedProperties";
  const Json* more = member(schema, more_word);
  const bool named = properties && !properties->empty();
  const std::vector<std::string> required = required_names(schema, at.place);
  if (patterns &&
      (named || !required.empty() || patterns->size() > 1 || (more && !is_false(more)))) {
    refuse_schema(place_of(at.place, "patternProperties"),
                  "it can only stand alone, with one pattern, in an object");
  }
  if (naming && (named || patterns || !required.empty())) {
    refuse_schema(place_of(at.place, "propertyNames"),
                  "it can only stand in an object without names");
  }

  ObjectRules rules{.min = count_of(schema, "minProperties", 0, at.place),
                    .max = count_of(schema, "maxProperties", kNoMaximum, at.place)};
  if (rules.max != kNoMaximum && rules.min > rules.max) {
    impossible(at, "minProperties is more than maxProperties");
    return ebnf.add_rule();
  }
  std::vector<std::string> names;
  const auto add_member = [&](const std::string& name, int value, bool needed) {
    names.push_back(name);
    rules.members.push_back(
        {ebnf.add_rule({Part::of(literal_text(Json(name).dump())), Part::ref(grammar_.colon()),
                        Part::ref(value), Part::ref(grammar_.space())}),
         needed});
  };
  static const Json kAnything = true;
  if (named) {
    for (const auto& [name, inner] : properties->items()) {
      const bool needed = std::find(required.begin(), required.end(), name) != required.end();
      add_member(name, rule_of(inner, at.inside(place_of(place_of(at.place, "properties"), name))),
                 needed);
    }
  }
  for (const std::string& name : required) {
    if (std::find(names.begin(), names.end(), name) != names.end()) continue;
    if (is_false(more)) {
      impossible(at, fmt::format("\"{}\" is required, but no property", name));
      return ebnf.add_rule();
    }
    add_member(name, rule_of(more ? *more : kAnything, at.inside(place_of(at.place, more_word))),
               true);
  }
  // An object with properties has no others, unless the schema speaks of them.
  const bool open = patterns || (more ? !is_false(more) : names.empty());
  if (open) {
    int name = 0, value = 0;
    if (patterns) {
      const auto first = patterns->items().begin();
      const std::string place = place_of(place_of(at.place, "patternProperties"), first.key());
      const Json pattern = {{"pattern", first.key()}};
      name = string_rule(pattern, at.inside(place));
      value = rule_of(first.value(), at.inside(place));
    } else {
      const std::string place = place_of(at.place, "propertyNames");
      if (naming && naming->is_object()) {
        name =
            rule_of(keep(joined(*naming, Json{{"type", "string"}}, place), at), at.inside(place));
      } else {
        name = is_false(naming) ? ebnf.add_rule() : grammar_.name_but(names);
      }
      value = rule_of(more ? *more : kAnything, at.inside(place_of(at.place, more_word)));
    }
    rules.others = ebnf.add_rule({Part::ref(name), Part::ref(grammar_.colon()), Part::ref(value),
                                  Part::ref(grammar_.space())});
  }
  // Members that no name keeps apart may have the same one, and count as one then.
  const std::int64_t sure = std::ssize(required) + 1;
  if (open && rules.min > sure) {
    refuse_schema(
        place_of(at.place, "minProperties"),
        fmt::format("more than {} properties that have no names", sure - std::ssize(required)));
  }
  const int members = rules.add_to(&grammar_);
  check_size();
  return grammar_.wrapped("{", Part::ref(members), "}");
}

// A rule for each member and number of members before it: what may follow. The number matters up to
// where the bounds do; without bounds only whether it is 0, for then no comma is written.
int ObjectRules::add_to(JsonGrammar* grammar) const {
  Ebnf& ebnf = grammar->ebnf();
  const size_t count = members.size();
  const std::int64_t enough =
      max != kNoMaximum ? std::max<std::int64_t>(max, 1) : std::max<std::int64_t>(min, 1);
  std::vector<std::map<std::int64_t, int>> rules(count + 1);
  const auto rule_at = [&](size_t next, std::int64_t before) {
    before = std::min(before, enough);
    const auto found = rules[next].find(before);
    if (found != rules[next].end()) return found->second;
    const int rule = ebnf.add_rule();
    rules[next].emplace(before, rule);
    return rule;
  };
  const auto with = [&](int member, std::int64_t before, int after) {
    Alternative alternative;
    if (before > 0) alternative.push_back(Part::ref(grammar->comma()));
    alternative.push_back(Part::ref(member));
    alternative.push_back(Part::ref(after));
    return alternative;
  };
  const int first = rule_at(0, 0);
  for (size_t i = 0; i < count; ++i) {
    // No rule of this member is added while they are filled.
    for (const auto& [before, rule] : rules[i]) {
      if (ebnf.rules() > kMaxRules) return first;
      if (max == kNoMaximum || before < max) {
        ebnf.add(rule, with(members[i].rule, before, rule_at(i + 1, before + 1)));
      }
      if (!members[i].required) ebnf.add(rule, {Part::ref(rule_at(i + 1, before))});
    }
  }
  const int next =
      others < 0 ? -1 : ebnf.add_rule({Part::ref(grammar->comma()), Part::ref(others)});
  for (const auto& [before, rule] : rules[count]) {
    const std::int64_t least = std::max<std::int64_t>(min - before, 0);
    const std::int64_t most = max == kNoMaximum ? kNoMaximum : max - before;
    if (least == 0) ebnf.add(rule, {});
    if (others < 0 || most == 0) continue;
    const auto but_one = [](std::int64_t number) { return number > 0 ? number - 1 : number; };
    ebnf.add(rule, {Part::ref(before == 0 ? others : next),
                    ebnf.times(Part::ref(next), but_one(least), but_one(most))});
  }
  return first;
}

}  // namespace quern::grammar
