// Of a JSON schema's reader: the parameters of a call that stand by themselves, each between tags
// or as an argument with a keyword. What is written is read back as what the schema allows.

#include <fmt/format.h>

#include <algorithm>

#include "grammar/marked_text.h"
#include "grammar/schema_reader.h"
#include "text/tool_calls/json_scanner.h"

namespace quern::grammar {
namespace {

// Of a schema for all parameters at once.
constexpr const char* kRefused[] = {"$ref", "allOf", "anyOf",         "oneOf",
                                    "enum", "const", "propertyNames", "patternProperties"};

constexpr std::pair<text::TypeBit, const char*> kTypeNames[] = {
    {text::kIntegerType, "integer"}, {text::kNumberType, "number"}, {text::kBooleanType, "boolean"},
    {text::kNullType, "null"},       {text::kObjectType, "object"}, {text::kArrayType, "array"}};

bool is_word(const std::string& name) {
  constexpr std::string_view kWordChars =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
  return !name.empty() && name.find_first_not_of(kWordChars) == name.npos;
}

bool is_tag_name(const std::string& name) {
  const auto unfit = [](char c) {
    return static_cast<unsigned char>(c) <= ' ' || c == '"' || c == '<' || c == '>';
  };
  return !name.empty() && std::none_of(name.begin(), name.end(), unfit);
}

constexpr const char* kAnyName = "[A-Za-z_] [A-Za-z0-9_]{0,63}";

// "</a>\n" is "</a>".
std::string closing_tag(const ParameterMarks& marks) {
  const size_t begin = marks.after_value.find('<');
  if (begin == marks.after_value.npos) return "";
  return std::string(marks.after_value.substr(begin, marks.after_value.find('>') - begin + 1));
}

}  // namespace

int SchemaReader::parameters(const ParameterMarks& marks, const JsonGrammar::TypesOf& types) {
  Ebnf& ebnf = grammar_.ebnf();
  const At at;
  for (const char* word : kRefused) {
    if (!root_.contains(word)) continue;
    refuse_schema(place_of(at.place, word),
                  "the format writes parameters one by one, and holds to \"properties\" only");
  }
  refuse_unknown_meaning(root_, at);
  if (!(types_of(root_, at.place) & kObject)) refuse_schema(at.place, "it allows no object");
  closing_tag_ = closing_tag(marks);
  const std::optional<Members> members = members_of(root_, at);
  ObjectRules rules{.comma = ebnf.add_rule({Part::of(literal_text(marks.separator))}),
                    .min = members->min,
                    .max = members->max};
  for (const Members::Member& one : members->named) {
    rules.members.push_back({parameter_rule(one, marks, types(one.name)), one.required});
  }
  // Which others there are is known of no parameter where some have names.
  if (members->named.empty() && members->open) {
    static const Json kAnything = true;
    const int value = rule_of(members->more ? *members->more : kAnything, {members->more_place});
    rules.others = ebnf.add_rule({Part::of(literal_text(marks.before_name)), Part::of(kAnyName),
                                  Part::of(literal_text(marks.before_value)), Part::ref(value),
                                  Part::of(literal_text(marks.after_value))});
    if (rules.min > 1) {
      refuse_schema(place_of(at.place, "minProperties"), "more than 1 property that has no name");
    }
  }
  const int all = rules.add_to(&ebnf);
  check_size();
  if (!ebnf.is_possible(all))
    refuse_schema(at.place, "no parameters satisfy it that can be written");
  return all;
}

int SchemaReader::parameter_rule(const Members::Member& parameter, const ParameterMarks& marks,
                                 text::TypeMask types) {
  Ebnf& ebnf = grammar_.ebnf();
  const bool tagged = grammar_.wording() == Wording::kTagged;
  if (tagged ? !is_tag_name(parameter.name) : !is_word(parameter.name)) {
    refuse_schema(parameter.place, "the format cannot write a parameter of this name");
  }
  const At at = At{}.inside(parameter.place);
  const int rule = ebnf.add_rule();
  const auto add = [&](std::string_view before, int value) {
    ebnf.add(
        rule,
        {Part::of(literal_text(fmt::format("{}{}{}", marks.before_name, parameter.name, before))),
         Part::ref(value), Part::of(literal_text(marks.after_value))});
  };
  if (!tagged || !(types & text::kStringType)) {
    add(marks.before_value, rule_of(*parameter.schema, at));
    return rule;
  }
  // Texts stand as they are, all else is JSON: two schemas, where it may be either.
  At plain = at.joined(parameter.place);
  const bool said = marks.before_text != marks.before_value;
  plain.taken_for = said ? text::TypeMask{text::kStringType} : types;
  if (types == text::kStringType) {
    plain.made = false;
    add(marks.before_text, rule_of(*parameter.schema, plain));
    return rule;
  }
  // "null" is read as null, which is one value and no harm where it is allowed.
  if (!said && allows_null(*parameter.schema, at)) {
    plain.taken_for = static_cast<text::TypeMask>(types & ~text::kNullType);
  }
  Json others = Json::array();
  for (const auto& [bit, name] : kTypeNames) {
    if (types & bit) others.push_back(name);
  }
  const auto part = [&](const Json& type, const At& where, std::string_view before) {
    const Json of_type{{"type", type}};
    if (!share_types(*parameter.schema, of_type, parameter.place)) return;
    const Json& both = keep(joined(*parameter.schema, of_type, parameter.place), where);
    add(before, rule_of(both, where));
  };
  part("string", plain, marks.before_text);
  part(others, at.joined(parameter.place), marks.before_value);
  return rule;
}

// Whether null satisfies the schema.
bool SchemaReader::allows_null(const Json& schema, const At& at) {
  const Json of_type{{"type", "null"}};
  // As optional values are mostly written, told without a look at all rules.
  constexpr std::string_view kAnyOf[] = {"anyOf"};
  const Json* options = member(schema, "anyOf");
  if (options && options->is_array() && !asserts(schema, kAnyOf) &&
      std::find(options->begin(), options->end(), of_type) != options->end()) {
    return true;
  }
  if (!share_types(schema, of_type, at.place)) return false;
  const Json& both = keep(joined(schema, of_type, at.place), at);
  return grammar_.ebnf().is_possible(rule_of(both, at.joined(at.place)));
}

// Any text that is not taken for another type, and closes no tag.
int SchemaReader::plain_text(const At& at) {
  return grammar_.once(fmt::format("any {}", at.taken_for), [&] {
    return add_marked_text(&grammar_.ebnf(), {{closing_tag_}}, first_of_others(at.taken_for));
  });
}

bool SchemaReader::is_plain_text(const std::string& text, const At& at) const {
  if (text.starts_with('\n') || text.ends_with('\n')) return false;
  return text.find(closing_tag_) == text.npos &&
         text::value_as_json(text, at.taken_for) == text::json_quoted(text);
}

CharSet SchemaReader::first_of_others(text::TypeMask taken_for) {
  CharSet set;
  const auto add = [&](std::string_view chars) {
    for (const char c : chars) set.emplace_back(c, c);
  };
  if (taken_for & (text::kIntegerType | text::kNumberType)) add("-0123456789");
  if (taken_for & text::kBooleanType) add("tfTF");
  if (taken_for & text::kNullType) add("nN");
  if (taken_for & text::kObjectType) add("{");
  if (taken_for & text::kArrayType) add("[");
  if (!set.empty()) add(" \t\r\n");
  return normalized(std::move(set));
}

int JsonGrammar::parameters(const Json& schema, const ParameterMarks& marks, const TypesOf& types) {
  return SchemaReader(schema, this).parameters(marks, types);
}

int JsonGrammar::parameters(const ParameterMarks& marks) {
  const auto one = [&](std::string_view before, int value) {
    return ebnf_.add_rule({Part::of(literal_text(marks.before_name)), Part::of(kAnyName),
                           Part::of(literal_text(before)), Part::ref(value),
                           Part::of(literal_text(marks.after_value))});
  };
  const int parameter =
      wording_ == Wording::kTagged
          ? one(marks.before_text, add_marked_text(&ebnf_, {{closing_tag(marks)}}))
          : one(marks.before_value, value());
  const int next = ebnf_.add_rule({Part::of(literal_text(marks.separator)), Part::ref(parameter)});
  const int rule = ebnf_.add_rule({});
  ebnf_.add(rule, {Part::ref(parameter), Part::ref(next, 0, kNoMaximum)});
  return rule;
}

}  // namespace quern::grammar
