// Of a JSON schema's reader: strings and numbers.

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/errors/grammar.h"
#include "grammar/number_ranges.h"
#include "grammar/schema_reader.h"

namespace quern::grammar {
namespace {

constexpr std::int64_t kMaxMultiples = 2000;
constexpr double kLargestInteger = 9e18;

// Formats that are more than a description here: each a narrower pattern than its RFC's.
constexpr std::pair<std::string_view, const char*> kFormats[] = {
    {"date", R"([0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8]))"},
    {"time",
     R"(([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))"},
    {"date-time",
     R"([0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|1[0-9]|2[0-8])T([01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](\.[0-9]{1,6})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9]))"},
    {"duration", R"(P([0-9]{1,4}W|[0-9]{1,4}D(T[0-9]{1,2}H([0-9]{1,2}M)?)?|T[0-9]{1,4}[HMS]))"},
    {"uuid", R"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})"},
    {"email",
     R"([A-Za-z0-9_+-]+(\.[A-Za-z0-9_+-]+)*@[A-Za-z0-9]+(-[A-Za-z0-9]+)*(\.[A-Za-z0-9]+(-[A-Za-z0-9]+)*)+)"},
    {"hostname",
     R"([A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20}){0,2}(\.[A-Za-z0-9]{1,20}(-[A-Za-z0-9]{1,20}){0,2}){0,3})"},
    {"ipv4",
     R"(((25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])\.){3}(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9]))"},
    {"ipv6", R"(([0-9a-f]{1,4}:){7}[0-9a-f]{1,4})"},
    {"uri",
     R"([a-z][a-z0-9+.-]{1,15}://[A-Za-z0-9.-]+(:[0-9]{1,5})?(/[A-Za-z0-9._~!$&'()*+,;=:@-]*)*(\?[A-Za-z0-9._~!$&'()*+,;=:@/-]*)?)"},
};

const char* format_pattern(const Json& schema) {
  const Json* format = member(schema, "format");
  if (!format || !format->is_string()) return nullptr;
  for (const auto& [name, pattern] : kFormats) {
    if (name == format->get_ref<const std::string&>()) return pattern;
  }
  return nullptr;
}

Regex pattern_of(const std::string& pattern, const std::string& place) {
  try {
    return Regex(pattern);
  } catch (const Error& error) {
    if (error.id() != errors::kGrammarInvalid) throw;
    refuse_schema(place, error.field("detail"));
  }
}

const Part kQuote = Part::of("\"\\\"\"");

double number_of(const Json& schema, const char* name, const std::string& place) {
  const Json& value = schema[name];
  if (!value.is_number()) refuse_schema(place_of(place, name), "it must be a number");
  return value.get<double>();
}

struct Bounds {
  std::optional<NumberBound> low, high;
};

Bounds bounds_of(const Json& schema, const std::string& place) {
  Bounds bounds;
  const auto tighten = [&](const char* name, bool exclusive, bool low) {
    if (!schema.contains(name)) return;
    const double value = number_of(schema, name, place);
    std::optional<NumberBound>& bound = low ? bounds.low : bounds.high;
    const bool tighter = !bound || (low ? value > bound->value : value < bound->value) ||
                         (value == bound->value && exclusive);
    if (tighter) bound = NumberBound{value, exclusive};
  };
  tighten("minimum", false, true);
  tighten("exclusiveMinimum", true, true);
  tighten("maximum", false, false);
  tighten("exclusiveMaximum", true, false);
  return bounds;
}

bool is_empty(const Bounds& bounds) {
  if (!bounds.low || !bounds.high) return false;
  const bool open = bounds.low->exclusive || bounds.high->exclusive;
  return bounds.low->value > bounds.high->value ||
         (bounds.low->value == bounds.high->value && open);
}

// The integers within.
std::pair<std::optional<std::int64_t>, std::optional<std::int64_t>> integers(const Bounds& bounds) {
  std::optional<std::int64_t> low, high;
  if (bounds.low) {
    const double least = std::ceil(bounds.low->value);
    low = static_cast<std::int64_t>(least);
    if (bounds.low->exclusive && least == bounds.low->value) ++*low;
  }
  if (bounds.high) {
    const double most = std::floor(bounds.high->value);
    high = static_cast<std::int64_t>(most);
    if (bounds.high->exclusive && most == bounds.high->value) --*high;
  }
  return {low, high};
}

}  // namespace

int SchemaReader::string_rule(const Json& schema, const At& at) {
  const std::int64_t min = count_of(schema, "minLength", 0, at.place);
  const std::int64_t max = count_of(schema, "maxLength", kNoMaximum, at.place);
  if (max != kNoMaximum && min > max) {
    impossible(at, "minLength is more than maxLength");
    return grammar_.ebnf().add_rule();
  }
  const auto fits = [&](const Regex& regex) {
    return regex.shortest() >= min &&
           (max == kNoMaximum || (regex.longest() != kNoMaximum && regex.longest() <= max));
  };
  const bool text_only = first_of_others(at.taken_for).empty();
  if (const Json* pattern = member(schema, "pattern")) {
    const std::string place = place_of(at.place, "pattern");
    if (!pattern->is_string()) refuse_schema(place, "it must be a string");
    const Regex regex = pattern_of(*pattern, place);
    if (!fits(regex)) {
      refuse_schema(at.place, "a pattern together with a length that its matches may not have");
    }
    if (!text_only) refuse_schema(at.place, "a pattern where other types than text are allowed");
    return matching_text(*pattern, regex, at);
  }
  if (const char* pattern = format_pattern(schema)) {
    const Regex regex(pattern);
    if (fits(regex) && text_only) return matching_text(pattern, regex, at);
  }
  if (min == 0 && max == kNoMaximum) return at.taken_for ? plain_text(at) : grammar_.text();
  return counted_text(min, max, at);
}

int SchemaReader::matching_text(const std::string& pattern, const Regex& regex, const At& at) {
  Ebnf& ebnf = grammar_.ebnf();
  const bool plain = at.taken_for != 0;
  return grammar_.once(fmt::format("{} {}", plain, pattern), [&] {
    if (plain) return regex.add_to(&ebnf, RegexText::kTagged);
    const bool tagged = grammar_.wording() == Wording::kTagged;
    const auto text = tagged ? RegexText::kTaggedString : RegexText::kJsonString;
    return ebnf.add_rule({kQuote, Part::ref(regex.add_to(&ebnf, text, {kQuote}))});
  });
}

// Escapes are left out: they would make every position two ways to count.
int SchemaReader::counted_text(std::int64_t min, std::int64_t max, const At& at) {
  Ebnf& ebnf = grammar_.ebnf();
  return grammar_.once(fmt::format("{}-{} {}", min, max, at.taken_for), [&] {
    if (at.taken_for == 0) {
      const Part plain = Part::of(class_text(grammar_.plain_chars()));
      return ebnf.add_rule(
          {kQuote, Part::ref(ebnf.chain(plain, min, max, ebnf.add_rule({kQuote})))});
    }
    static const CharSet kTagless = complement({{'\n', '\n'}, {'<', '<'}});
    const CharSet first = intersection(kTagless, complement(first_of_others(at.taken_for)));
    const auto but_one = [](std::int64_t count) { return count > 0 ? count - 1 : count; };
    const int rule = ebnf.add_rule();
    if (min == 0) ebnf.add(rule, {});
    if (max != 0) {
      ebnf.add(rule, {Part::of(class_text(first)),
                      ebnf.times(Part::of(class_text(kTagless)), but_one(min), but_one(max))});
    }
    return rule;
  });
}

int SchemaReader::number_rule(const Json& schema, bool integer, const At& at) {
  Ebnf& ebnf = grammar_.ebnf();
  const Bounds bounds = bounds_of(schema, at.place);
  if (is_empty(bounds)) {
    impossible(at, "the minimum is more than the maximum");
    return ebnf.add_rule();
  }
  for (const auto& bound : {bounds.low, bounds.high}) {
    if (!bound) continue;
    const double size = std::fabs(bound->value);
    if (size > (integer ? kLargestInteger : kLargestBound) ||
        (!integer && size != 0 && size < 1e-9)) {
      refuse_schema(at.place,
                    fmt::format("the bound {} is too large or too close to 0", bound->value));
    }
  }
  if (schema.contains("multipleOf")) {
    const int rule = ebnf.add_rule();
    add_multiples(rule, schema, integer, at);
    return rule;
  }
  if (!bounds.low && !bounds.high) return integer ? grammar_.integer() : grammar_.number();
  if (!integer) return number_range(bounds.low, bounds.high, &ebnf);
  const auto [low, high] = integers(bounds);
  if (low && high && *low > *high) {
    impossible(at, "no integer lies between the minimum and the maximum");
    return ebnf.add_rule();
  }
  return integer_range(low, high, &ebnf);
}

void SchemaReader::add_multiples(int rule, const Json& schema, bool integer, const At& at) {
  const std::string place = place_of(at.place, "multipleOf");
  const double step = number_of(schema, "multipleOf", at.place);
  if (!(step > 0)) refuse_schema(place, "it must be more than 0");
  const bool whole = step == std::floor(step) && step <= 1e15;
  if (!whole) refuse_schema(place, "only whole numbers can become a grammar");
  (void)integer;  // multiples of a whole number are integers
  Ebnf& ebnf = grammar_.ebnf();
  const Bounds bounds = bounds_of(schema, at.place);
  const auto [low, high] = integers(bounds);
  const auto size = static_cast<std::int64_t>(step);
  if (size == 1) return ebnf.add(rule, {Part::ref(integer_range(low, high, &ebnf))});
  if (low && high) {
    const auto down = [&](std::int64_t value) { return value / size - (value % size < 0 ? 1 : 0); };
    const std::int64_t first = -down(-*low), last = down(*high);
    if (last - first >= kMaxMultiples) {
      refuse_schema(place, fmt::format("more than {} multiples within the bounds", kMaxMultiples));
    }
    if (first > last) return impossible(at, "no multiple lies within the bounds");
    for (std::int64_t i = first; i <= last; ++i) {
      ebnf.add(rule, {Part::of(literal_text(std::to_string(i * size)))});
    }
    return;
  }
  std::string zeros;
  std::int64_t rest = size;
  for (; rest % 10 == 0; rest /= 10) zeros += '0';
  const char* last = rest == 1 ? "" : rest == 2 ? " [02468]" : rest == 5 ? " [05]" : nullptr;
  if (!last || low || high) {
    refuse_schema(place,
                  "it needs a minimum and a maximum, or to be 1, 2, 5 or one of these times 10, "
                  "100, … without either");
  }
  ebnf.add(rule, {Part::of("\"0\"")});
  const std::string end = zeros.empty() ? "" : " \"" + zeros + "\"";
  if (rest == 1) {
    ebnf.add(rule, {Part::of("\"-\"? [1-9] [0-9]{0,10}" + end)});
  } else {
    ebnf.add(rule, {Part::of("\"-\"? [1-9] [0-9]{0,10}" + std::string(last) + end)});
    ebnf.add(rule, {Part::of(std::string("\"-\"?") + (rest == 2 ? " [2468]" : " \"5\"") + end)});
  }
}

}  // namespace quern::grammar
