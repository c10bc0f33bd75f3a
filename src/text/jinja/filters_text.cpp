// Filters on texts and numbers, and those that turn values into them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "text/jinja/filters.h"
#include "text/jinja/format.h"
#include "text/jinja/numbers.h"
#include "text/jinja/protocol.h"
#include "text/jinja/string_ops.h"
#include "text/jinja/unicode.h"

namespace quern::text::jinja {
namespace {

// The text of a value, for filters that take any value for one.
const Str& soft(Runtime& runtime, const Value& value) { return *to_text(runtime, value).string; }

Value do_trim(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "trim", arguments, {"chars"}, 0);
  const bool any = given.has(0) && !given[0].is(Kind::kNone);
  if (any && !given[0].is_string()) runtime.fail("trim takes a str of characters");
  return stripped(runtime, soft(runtime, value), any ? given[0].string : nullptr, Side::kBoth);
}

template <Case kWanted>
Value do_case(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "the filter", arguments, {}, 0);
  return cased(runtime, soft(runtime, value), kWanted);
}

Value do_capitalize(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "capitalize", arguments, {}, 0);
  return capitalized(runtime, soft(runtime, value));
}

// Words begin behind white space, hyphens and opening brackets.
Value do_title(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "title", arguments, {}, 0);
  const Str& text = soft(runtime, value);
  MarkedText out;
  bool first = true;
  for (std::size_t at = 0; at < text.text.size();) {
    const Char c = char_at(text.text, at);
    const Str& one = *runtime.part(text, at, at + c.size).string;
    out.append(*cased(runtime, one, first ? Case::kUpper : Case::kLower).string);
    first = is_space(c.code) ||
            (c.code < 0x80 &&
             std::string_view("-({[<").find(static_cast<char>(c.code)) != std::string_view::npos);
    at += c.size;
  }
  return runtime.text(out);
}

Value do_replace(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "replace", arguments, {"old", "new", "count"}, 2);
  const bool all = !given.has(2) || given[2].is(Kind::kNone);
  return replaced(runtime, soft(runtime, value), soft(runtime, given[0]), soft(runtime, given[1]),
                  all ? -1 : index_of(runtime, given[2], "the count of replace"));
}

Value do_string(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "string", arguments, {}, 0);
  return to_text(runtime, value);
}

Value do_safe(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "safe", arguments, {}, 0);
  const Str& text = soft(runtime, value);
  return string(runtime.arena().make<Str>(text.text, text.origin, true, text.data));
}

Value do_escape(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "escape", arguments, {}, 0);
  return escaped(runtime, value);
}

Value do_force_escape(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "forceescape", arguments, {}, 0);
  const Str& text = soft(runtime, value);
  return escaped(runtime,
                 string(runtime.arena().make<Str>(text.text, text.origin, false, text.data)));
}

Value do_indent(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "indent", arguments, {"width", "first", "blank"}, 0);
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (!value.is_string()) runtime.fail(fmt::format("indent takes no {}", type_name(value)));
  Value indention = runtime.text("    ");
  if (given.has(0) && given[0].is_string()) {
    indention = given[0];
  } else if (given.has(0)) {
    const std::int64_t width = index_of(runtime, given[0], "the width of indent");
    runtime.check_product(1, width);
    indention =
        runtime.text(std::string(static_cast<std::size_t>(std::max<std::int64_t>(0, width)), ' '));
  }
  const bool blank = truth(given.get(2, boolean(false)));
  // Lines as splitlines() sees them once a newline was added.
  const std::string_view text = value.text();
  std::vector<Value> lines = split_lines(runtime, *value.string, false);
  if (text.empty() || text.back() == '\n') lines.push_back(runtime.text(""));
  MarkedText out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    const bool indented =
        i == 0 ? truth(given.get(1, boolean(false))) : blank || !lines[i].text().empty();
    if (indented) out.append(*indention.string);
    out.append(*lines[i].string);
    runtime.check_size(out.size());
  }
  return runtime.text(out);
}

Value do_center(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "center", arguments, {"width"}, 0);
  const std::int64_t width = index_of(runtime, given.get(0, integer(80)), "the width of center");
  MarkedText out;
  append_padded(runtime, to_text(runtime, value), width, " ", 'c', out);
  return runtime.text(out);
}

Value do_truncate(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "truncate", arguments, {"length", "killwords", "end", "leeway"},
                         0);
  const Str& text = soft(runtime, value);
  const Value end = to_text(runtime, given.get(2, runtime.text("...")));
  const std::int64_t most = index_of(runtime, given.get(0, integer(255)), "the length of truncate");
  const std::int64_t leeway =
      given.has(3) && !given[3].is(Kind::kNone) ? index_of(runtime, given[3], "the leeway") : 5;
  const auto end_size = static_cast<std::int64_t>(count_chars(end.text()));
  if (most < end_size || leeway < 0) runtime.fail("truncate's length or leeway is too small");
  if (static_cast<std::int64_t>(count_chars(text.text)) <= most + leeway) return string(&text);
  Value kept = runtime.part(text, 0, byte_of(text.text, static_cast<std::size_t>(most - end_size)));
  if (!truth(given.get(1, boolean(false)))) {
    kept = split(runtime, *kept.string, " ", 1, true)[0];
  }
  MarkedText out;
  out.append(*kept.string);
  out.append(*end.string);
  return runtime.text(out);
}

Value do_wordcount(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "wordcount", arguments, {}, 0);
  const std::string_view text = soft(runtime, value).text;
  runtime.charge(text.size());
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    const Char c = char_at(text, at);
    const bool part = is_identifier(c.code);
    words += part && !inside;
    inside = part;
    at += c.size;
  }
  return integer(words);
}

Value do_striptags(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "striptags", arguments, {}, 0);
  const Str& text = soft(runtime, value);
  std::string kept;
  for (std::size_t at = 0; at < text.text.size();) {
    const bool comment = text.text.substr(at).starts_with("<!--");
    const std::string_view close = comment ? "-->" : ">";
    const std::size_t end = text.text[at] == '<' ? text.text.find(close, at + (comment ? 4 : 1))
                                                 : std::string_view::npos;
    if (end != std::string_view::npos) {
      at = end + close.size();
    } else {
      kept += text.text[at++];
    }
  }
  const Value plain = runtime.text(kept);
  std::string out;
  for (const Value& word : split_words(runtime, *plain.string, -1, false)) {
    out += out.empty() ? "" : " ";
    out += word.text();
  }
  constexpr std::pair<std::string_view, std::string_view> kEntities[] = {
      {"&lt;", "<"},   {"&gt;", ">"},  {"&quot;", "\""},
      {"&#34;", "\""}, {"&#39;", "'"}, {"&amp;", "&"}};
  for (const auto& [entity, meaning] : kEntities) {
    std::string next;
    std::size_t at = 0;
    for (std::size_t found = 0; (found = out.find(entity, at)) != std::string::npos;) {
      next.append(out, at, found - at).append(meaning);
      at = found + entity.size();
    }
    out = next.append(out, at);
  }
  return runtime.text(out, text.origin != Origin::kTemplate);
}

std::string quoted(std::string_view text, bool in_query) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (is_alpha(byte) || is_decimal(byte) ||
                                       std::string_view("_.-~").find(c) != std::string_view::npos);
    if (plain || (c == '/' && !in_query)) {
      out += c;
    } else {
      out += in_query && c == ' ' ? "+" : fmt::format("%{:02X}", byte);
    }
  }
  return out;
}

Value do_urlencode(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "urlencode", arguments, {}, 0);
  if (!value.is(Kind::kDict)) {
    const Str& text = soft(runtime, value);
    return runtime.text(quoted(text.text, false), text.origin != Origin::kTemplate);
  }
  MarkedText out;
  for (const Entry& entry : value.dict->entries) {
    if (out.size() > 0) out.append("&");
    const Str &name = soft(runtime, entry.key), &text = soft(runtime, entry.value);
    out.append(quoted(name.text, true), name.origin != Origin::kTemplate);
    out.append("=");
    out.append(quoted(text.text, true), text.origin != Origin::kTemplate);
  }
  return runtime.text(out);
}

Value do_format(Runtime& runtime, const Value& value, const Arguments& arguments) {
  if (!arguments.keywords.empty() && !arguments.positional.empty()) {
    runtime.fail("format takes either values by position or by name");
  }
  std::vector<Entry> named;
  for (const Keyword& keyword : arguments.keywords) {
    named.push_back({runtime.text(keyword.name), keyword.value});
  }
  return percent_format(runtime, soft(runtime, value),
                        named.empty() ? runtime.tuple(arguments.positional) : runtime.dict(named));
}

Value do_tojson(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "tojson", arguments,
                         {"ensure_ascii", "indent", "separators", "sort_keys"}, 0);
  JsonStyle style;
  style.ascii = truth(given.get(0, boolean(false)));
  const Value indent = given.get(1, none()), separators = given.get(2, none());
  style.indented = !indent.is(Kind::kNone);
  if (indent.is_string()) {
    style.indent = indent.text();
  } else if (style.indented) {
    const std::int64_t width = index_of(runtime, indent, "the indent of tojson");
    runtime.check_product(1, width);
    style.indent.assign(static_cast<std::size_t>(std::max<std::int64_t>(0, width)), ' ');
  }
  if (style.indented) style.item_separator = ",";
  if (!separators.is(Kind::kNone)) {
    const Items items(runtime, separators);
    if (items.size() != 2 || !items.all()[0].is_string() || !items.all()[1].is_string()) {
      runtime.fail("the separators of tojson are two texts");
    }
    style.item_separator = items.all()[0].text();
    style.key_separator = items.all()[1].text();
  }
  style.sort_keys = truth(given.get(3, boolean(false)));
  return to_json(runtime, value, style);
}

Value do_int(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "int", arguments, {"default", "base"}, 0);
  const std::int64_t base = index_of(runtime, given.get(1, integer(10)), "the base of int");
  if (value.is_undefined()) runtime.fail_undefined(value);
  std::optional<Int> number;
  if (value.is_integral()) number = value.as_int();
  if (value.is_string()) number = parse_int(value.text(), base);
  if (!number) {
    std::optional<double> approximate;
    if (value.is(Kind::kFloat)) approximate = value.real;
    if (value.is_string()) approximate = parse_float(value.text());
    if (approximate && std::fabs(*approximate) < 1e38) number = static_cast<Int>(*approximate);
  }
  return number ? integer(*number) : given.get(0, integer(0));
}

Value do_float(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "float", arguments, {"default"}, 0);
  if (value.is_undefined()) runtime.fail_undefined(value);
  if (value.is_number()) return real(value.as_double());
  const std::optional<double> number = value.is_string() ? parse_float(value.text()) : std::nullopt;
  return number ? real(*number) : given.get(0, real(0));
}

Value do_round(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "round", arguments, {"precision", "method"}, 0);
  const std::int64_t places = index_of(runtime, given.get(0, integer(0)), "the precision of round");
  const Value method = given.get(1, runtime.text("common"));
  if (!value.is_number()) runtime.fail(fmt::format("round takes no {}", type_name(value)));
  if (places < -300 || places > 300) runtime.fail("the precision of round is out of range");
  if (method.is_string() && method.text() == "common") {
    if (value.is_integral() && places >= 0) return integer(value.as_int());
    return real(rounded(value.as_double(), static_cast<int>(places)));
  }
  const double scale = std::pow(10.0, static_cast<double>(places));
  const double scaled = value.as_double() * scale;
  if (method.is_string() && method.text() == "ceil") return real(std::ceil(scaled) / scale);
  if (method.is_string() && method.text() == "floor") return real(std::floor(scaled) / scale);
  runtime.fail("the method of round is common, ceil or floor");
}

Value do_abs(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "abs", arguments, {}, 0);
  if (value.is(Kind::kFloat)) return real(std::fabs(value.real));
  if (!value.is_integral()) runtime.fail(fmt::format("abs takes no {}", type_name(value)));
  return integer(value.as_int() < 0 ? -value.as_int() : value.as_int());
}

Value do_length(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters none(runtime, "length", arguments, {}, 0);
  const std::optional<std::size_t> size = length(value);
  if (!size) runtime.fail(fmt::format("a {} has no length", type_name(value)));
  if (value.is_string()) runtime.charge(value.text().size());
  return integer(static_cast<std::int64_t>(*size));
}

Value do_default(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Parameters given(runtime, "default", arguments, {"default_value", "boolean"}, 0);
  const bool use = value.is_undefined() || (truth(given.get(1, boolean(false))) && !truth(value));
  return use ? given.get(0, runtime.text("")) : value;
}

constexpr auto kFilters = std::to_array<Filter>({
    {"trim", do_trim},
    {"tojson", do_tojson},
    {"length", do_length},
    {"default", do_default},
    {"string", do_string},
    {"upper", do_case<Case::kUpper>},
    {"lower", do_case<Case::kLower>},
    {"replace", do_replace},
    {"indent", do_indent},
    {"safe", do_safe},
    {"title", do_title},
    {"capitalize", do_capitalize},
    {"count", do_length},
    {"d", do_default},
    {"e", do_escape},
    {"escape", do_escape},
    {"forceescape", do_force_escape},
    {"center", do_center},
    {"truncate", do_truncate},
    {"wordcount", do_wordcount},
    {"striptags", do_striptags},
    {"urlencode", do_urlencode},
    {"format", do_format},
    {"int", do_int},
    {"float", do_float},
    {"round", do_round},
    {"abs", do_abs},
});

}  // namespace

std::span<const Filter> text_filters() { return kFilters; }

}  // namespace quern::text::jinja
