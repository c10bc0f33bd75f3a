#include "grammar/json_grammar.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "grammar/schema_reader.h"
#include "text/utf8.h"

namespace quern::grammar {
namespace {

CharSet chars_as_they_are(Wording wording) {
  CharSet escaped = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}};
  if (wording == Wording::kTagged) escaped.emplace_back('<', '<');
  return complement(normalized(std::move(escaped)));
}

std::string python_text(const Json& value) {
  if (value.is_null()) return "None";
  if (value.is_boolean()) return value.get<bool>() ? "True" : "False";
  if (!value.is_structured()) return value.dump();
  std::string text;
  for (const auto& [key, item] : value.items()) {
    if (!text.empty()) text += ", ";
    if (value.is_object()) text += Json(key).dump() + ": ";
    text += python_text(item);
  }
  return value.is_object() ? "{" + text + "}" : "[" + text + "]";
}

// A look at brackets and commas, so that no hostile nesting or number reaches the parser.
void check_bounds(std::string_view text) {
  if (text.size() > kMaxSchemaBytes) {
    refuse_grammar(fmt::format("it has {} bytes; the limit is {}", text.size(), kMaxSchemaBytes));
  }
  int depth = 0;
  std::int64_t values = 1;
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted) {
      if (c == '\\') ++i;
      if (c == '"') quoted = false;
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > kMaxSchemaDepth) {
        refuse_grammar(fmt::format("it is nested more than {} deep", kMaxSchemaDepth));
      }
    } else if (c == ']' || c == '}') {
      --depth;
    } else if (c == ',') {
      ++values;
    }
    if (values > kMaxSchemaValues) {
      refuse_grammar(fmt::format("it has more than {} values", kMaxSchemaValues));
    }
  }
}

}  // namespace

Json parse_bounded(std::string_view text) {
  check_bounds(text);
  try {
    return Json::parse(text);
  } catch (const nlohmann::json::exception& error) {
    const std::string_view what = error.what();
    const size_t begin = what.find("] ");
    refuse_grammar(
        fmt::format("it is not valid JSON: {}",
                    text::replace_invalid(begin == what.npos ? what : what.substr(begin + 2))));
  }
}

JsonGrammar::JsonGrammar(const JsonStyle& style, Ebnf* ebnf, Wording wording)
    : ebnf_(*ebnf), wording_(wording), plain_chars_(chars_as_they_are(wording)) {
  const auto mark = [&](std::string_view before, int after) {
    return ebnf_.add_rule({Part::of(literal_text(before)), Part::ref(after)});
  };
  if (!style.whitespace_pattern.empty()) {
    space_ = Regex(style.whitespace_pattern).add_to(ebnf, RegexText::kPlain);
  } else if (style.any_whitespace) {
    // More of it would let a model write blanks until its tokens are used up.
    space_ = ebnf_.add_rule();
    ebnf_.add(space_, {});
    ebnf_.add(space_, {Part::of("\" \"")});
    ebnf_.add(space_, {Part::of("\"\\n\" [ \\t]{0,32}")});
  } else {
    space_ = ebnf_.add_rule({Part::of("\"\"")});
    comma_ = ebnf_.add_rule({Part::of("\", \"")});
    colon_ = ebnf_.add_rule({Part::of("\": \"")});
    return;
  }
  comma_ = mark(",", space_);
  colon_ = ebnf_.add_rule({Part::ref(space_), Part::of("\":\""), Part::ref(space_)});
}

int JsonGrammar::once(int* rule, int (JsonGrammar::*make)()) {
  if (*rule < 0) *rule = (this->*make)();
  return *rule;
}

std::string JsonGrammar::literal(const Json& value) const {
  if (wording_ == Wording::kPython) return literal_text(python_text(value));
  std::string text = value.dump();
  if (wording_ == Wording::kTagged) {
    for (size_t at = 0; (at = text.find('<', at)) != text.npos;) text.replace(at, 1, "\\u003c");
  }
  return literal_text(text);
}

int JsonGrammar::once(const std::string& kind, const std::function<int()>& make) {
  const auto found = texts_.find(kind);
  if (found != texts_.end()) return found->second;
  const int rule = make();
  texts_.emplace(kind, rule);
  return rule;
}

int JsonGrammar::text() { return once(&text_, &JsonGrammar::make_text); }
int JsonGrammar::integer() { return once(&integer_, &JsonGrammar::make_integer); }
int JsonGrammar::number() { return once(&number_, &JsonGrammar::make_number); }

int JsonGrammar::make_escape() {
  const int rule = ebnf_.add_rule();
  const bool python = wording_ == Wording::kPython;
  ebnf_.add(rule, {Part::of(python ? R"("\\" ["\\bfnrt])" : R"("\\" ["\\/bfnrt])")});
  // Halves of surrogate pairs alone are no text.
  ebnf_.add(rule, {Part::of(R"("\\u" [0-9a-cA-CefEF] [0-9a-fA-F]{3})")});
  ebnf_.add(rule, {Part::of(R"("\\u" [dD] [0-7] [0-9a-fA-F]{2})")});
  if (python) return rule;  // has no pairs
  ebnf_.add(rule, {Part::of(R"("\\u" [dD] [89abAB] [0-9a-fA-F]{2} "\\u" [dD] [c-fC-F] )"
                            R"([0-9a-fA-F]{2})")});
  return rule;
}

int JsonGrammar::make_text() {
  const int rest = ebnf_.add_rule();
  ebnf_.add(rest, {Part::of("\"\\\"\"")});
  ebnf_.add(rest, {Part::of(class_text(plain_chars_)), Part::ref(rest)});
  ebnf_.add(rest, {Part::ref(once(&escape_, &JsonGrammar::make_escape)), Part::ref(rest)});
  return ebnf_.add_rule({Part::of("\"\\\"\""), Part::ref(rest)});
}

int JsonGrammar::make_integer() {
  return ebnf_.add_rule({Part::of(fmt::format("\"-\"? (\"0\" | [1-9] [0-9]{{0,{}}})", 14))});
}

int JsonGrammar::make_number() {
  return ebnf_.add_rule(
      {Part::of("\"-\"? (\"0\" | [1-9] [0-9]{0,14}) (\".\" [0-9]{1,12})? "
                "([eE] [+\\-]? [0-9]{1,2})?")});
}

int JsonGrammar::wrapped(std::string_view open, Part inside, std::string_view close) {
  return ebnf_.add_rule({Part::of(literal_text(open)), Part::ref(space_), std::move(inside),
                         Part::of(literal_text(close))});
}

// Values refer to arrays and objects, which refer to values.
int JsonGrammar::value() {
  if (value_ >= 0) return value_;
  value_ = ebnf_.add_rule();
  ebnf_.add(value_, {Part::ref(text())});
  ebnf_.add(value_, {Part::ref(number())});
  for (const Json& word : {Json(true), Json(false), Json()}) {
    ebnf_.add(value_, {Part::of(literal(word))});
  }
  ebnf_.add(value_, {Part::ref(array())});
  ebnf_.add(value_, {Part::ref(object())});
  return value_;
}

int JsonGrammar::array() {
  if (array_ >= 0) return array_;
  const int items = ebnf_.add_rule();
  array_ = wrapped("[", Part::ref(items, 0, 1), "]");
  const int one = ebnf_.add_rule({Part::ref(value()), Part::ref(space_)});
  const int more = ebnf_.add_rule({Part::ref(comma_), Part::ref(one)});
  ebnf_.add(items, {Part::ref(one), Part::ref(more, 0, kNoMaximum)});
  return array_;
}

int JsonGrammar::object() {
  if (object_ >= 0) return object_;
  const int members = ebnf_.add_rule();
  object_ = wrapped("{", Part::ref(members, 0, 1), "}");
  const int one =
      ebnf_.add_rule({Part::ref(text()), Part::ref(colon_), Part::ref(value()), Part::ref(space_)});
  const int more = ebnf_.add_rule({Part::ref(comma_), Part::ref(one)});
  ebnf_.add(members, {Part::ref(one), Part::ref(more, 0, kNoMaximum)});
  return object_;
}

int JsonGrammar::name_but(const std::vector<std::string>& names) {
  if (names.empty()) return text();
  // A tree of the names' characters. Names with escapes could be one of them in other letters, so
  // that none are written.
  struct Node {
    std::map<char32_t, size_t> next;
    bool ends = false;
  };
  std::vector<Node> nodes(1);
  for (const std::string& name : names) {
    size_t node = 0;
    for (size_t at = 0; at < name.size();) {
      const char32_t c = text::next_char(name, at);
      const auto [place, added] = nodes[node].next.emplace(c, nodes.size());
      const size_t child = place->second;
      if (added) nodes.emplace_back();
      node = child;
    }
    nodes[node].ends = true;
  }
  const std::string plain = class_text(plain_chars_);
  const int rest = ebnf_.add_rule({Part::of(plain + "* \"\\\"\"")});
  std::vector<int> rules(nodes.size());
  for (int& rule : rules) rule = ebnf_.add_rule();
  for (size_t i = 0; i < nodes.size(); ++i) {
    CharSet taken;
    for (const auto& [c, child] : nodes[i].next) {
      taken.emplace_back(c, c);
      if (contains(plain_chars_, c)) {
        ebnf_.add(rules[i], {Part::of(class_text({{c, c}})), Part::ref(rules[child])});
      }
    }
    const CharSet others = intersection(plain_chars_, complement(normalized(taken)));
    ebnf_.add(rules[i], {Part::of(class_text(others)), Part::ref(rest)});
    if (!nodes[i].ends) ebnf_.add(rules[i], {Part::of("\"\\\"\"")});
  }
  return ebnf_.add_rule({Part::of("\"\\\"\""), Part::ref(rules[0])});
}

int JsonGrammar::schema(const Json& schema) { return SchemaReader(schema, this).root(); }

namespace {

std::string text_of(const Ebnf& ebnf, int root, Behind behind) {
  std::optional<std::string> text = ebnf.text(root, behind);
  if (!text) refuse_grammar("nothing satisfies it");
  return *text;
}

}  // namespace

std::string json_schema_grammar(std::string_view schema, const JsonStyle& style, Behind behind) {
  const Json json = parse_bounded(schema);
  Ebnf ebnf;
  JsonGrammar grammar(style, &ebnf);
  return text_of(ebnf, grammar.schema(json), behind);
}

std::string json_object_grammar(const JsonStyle& style) {
  Ebnf ebnf;
  JsonGrammar grammar(style, &ebnf);
  return text_of(ebnf, grammar.object(), Behind::kNothing);
}

std::string regex_grammar(std::string_view pattern, Behind behind) {
  Ebnf ebnf;
  return text_of(ebnf, Regex(pattern).add_to(&ebnf, RegexText::kPlain), behind);
}

}  // namespace quern::grammar
