// Of a JSON schema's reader: objects.

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "grammar/schema_reader.h"

namespace quern::grammar {
namespace {

const Json kAnything = true;

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
    const std::string text = name.get<std::string>();
    if (std::find(names.begin(), names.end(), text) == names.end()) names.push_back(text);
  }
  return names;
}

}  // namespace

// What an object's schema says of its members. Nothing where it says that there is no such object,
// which is an error where it is not one of several possibilities.
std::optional<SchemaReader::Members> SchemaReader::members_of(const Json& schema, const At& at) {
  const Json* properties = member(schema, "properties");
  if (properties && !properties->is_object()) {
    refuse_schema(place_of(at.place, "properties"), "it must be an object of schemas");
  }
  Members members{.min = count_of(schema, "minProperties", 0, at.place),
                  .max = count_of(schema, "maxProperties", kNoMaximum, at.place)};
  if (members.max != kNoMaximum && members.min > members.max) {
    impossible(at, "minProperties is more than maxProperties");
    return std::nullopt;
  }
  const char* more_word =
      schema.contains("additionalProperties") ? "additionalProperties" : "unevaluatedProperties";
  members.more_place = place_of(at.place, more_word);
  if (const Json* more = member(schema, more_word)) members.more = more;
  const std::vector<std::string> required = required_names(schema, at.place);
  if (properties) {
    for (const auto& [name, inner] : properties->items()) {
      const bool needed = std::find(required.begin(), required.end(), name) != required.end();
      members.named.push_back(
          {name, &inner, place_of(place_of(at.place, "properties"), name), needed});
    }
  }
  for (const std::string& name : required) {
    if (properties && properties->contains(name)) continue;
    if (is_false(members.more)) {
      impossible(at, fmt::format("\"{}\" is required, but no property", name));
      return std::nullopt;
    }
    members.named.push_back(
        {name, members.more ? members.more : &kAnything, members.more_place, true});
  }
  // An object with properties has no others, unless the schema speaks of them.
  members.open = members.more ? !is_false(members.more) : members.named.empty();
  return members;
}

int SchemaReader::object_rule(const Json& schema, const At& at) {
  Ebnf& ebnf = grammar_.ebnf();
  const Json* patterns = member(schema, "patternProperties");
  if (patterns && !patterns->is_object()) {
    refuse_schema(place_of(at.place, "patternProperties"), "it must be an object of schemas");
  }
  if (patterns && patterns->empty()) patterns = nullptr;
  const Json* naming = member(schema, "propertyNames");
  const std::optional<Members> members = members_of(schema, at);
  if (!members) return ebnf.add_rule();
  const bool named = !members->named.empty();
  if (patterns && (named || patterns->size() > 1 || (members->more && !is_false(members->more)))) {
    refuse_schema(place_of(at.place, "patternProperties"),
                  "it can only stand alone, with one pattern, in an object");
  }
  if (naming && (named || patterns)) {
    refuse_schema(place_of(at.place, "propertyNames"),
                  "it can only stand in an object without names");
  }
  ObjectRules rules{.comma = grammar_.comma(), .min = members->min, .max = members->max};
  std::vector<std::string> names;
  for (const Members::Member& one : members->named) {
    names.push_back(one.name);
    const int value = rule_of(*one.schema, at.inside(one.place));
    rules.members.push_back(
        {ebnf.add_rule({Part::of(grammar_.literal(one.name)), Part::ref(grammar_.colon()),
                        Part::ref(value), Part::ref(grammar_.space())}),
         one.required});
  }
  if (patterns || members->open) {
    rules.others =
        patterns ? patterned_member(*patterns, at) : other_member(*members, naming, names, at);
    // Members that no name keeps apart may have the same one, and count as one then.
    const std::int64_t sure = std::count_if(rules.members.begin(), rules.members.end(),
                                            [](const auto& one) { return one.required; }) +
                              1;
    if (rules.min > sure) {
      refuse_schema(place_of(at.place, "minProperties"), "more than 1 property that has no name");
    }
  }
  const int all = rules.add_to(&ebnf);
  check_size();
  return grammar_.wrapped("{", Part::ref(all), "}");
}

int SchemaReader::patterned_member(const Json& patterns, const At& at) {
  const auto first = patterns.items().begin();
  const std::string place = place_of(place_of(at.place, "patternProperties"), first.key());
  const int name = string_rule(Json{{"pattern", first.key()}}, at.inside(place));
  return unnamed_member(name, rule_of(first.value(), at.inside(place)));
}

int SchemaReader::other_member(const Members& members, const Json* naming,
                               const std::vector<std::string>& names, const At& at) {
  const std::string place = place_of(at.place, "propertyNames");
  int name = 0;
  if (naming && naming->is_object()) {
    name = rule_of(keep(joined(*naming, Json{{"type", "string"}}, place), at), at.inside(place));
  } else {
    name = is_false(naming) ? grammar_.ebnf().add_rule() : grammar_.name_but(names);
  }
  const Json& value = members.more ? *members.more : kAnything;
  return unnamed_member(name, rule_of(value, at.inside(members.more_place)));
}

int SchemaReader::unnamed_member(int name, int value) {
  return grammar_.ebnf().add_rule({Part::ref(name), Part::ref(grammar_.colon()), Part::ref(value),
                                   Part::ref(grammar_.space())});
}

// A rule for each member and number of members before it: what may follow. The number matters up to
// where the bounds do; without bounds only whether it is 0, for then no comma is written.
int ObjectRules::add_to(Ebnf* grammar) const {
  Ebnf& ebnf = *grammar;
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
    if (before > 0) alternative.push_back(Part::ref(comma));
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
  const int next = others < 0 ? -1 : ebnf.add_rule({Part::ref(comma), Part::ref(others)});
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
