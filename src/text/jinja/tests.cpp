// What stands behind `is`.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "text/jinja/filters.h"
#include "text/jinja/objects.h"
#include "text/jinja/operators.h"
#include "text/jinja/protocol.h"
#include "text/jinja/unicode.h"

namespace quern::text::jinja {
namespace {

void no_arguments(Runtime& runtime, const Arguments& arguments) {
  const Parameters none(runtime, "the test", arguments, {}, 0);
}

Value argument(Runtime& runtime, const Arguments& arguments) {
  return Parameters(runtime, "the test", arguments, {"other"}, 1)[0];
}

template <bool (*kHolds)(const Value&)>
bool plain(Runtime& runtime, const Value& value, const Arguments& arguments) {
  no_arguments(runtime, arguments);
  return kHolds(value);
}

bool is_defined(const Value& value) { return !value.is_undefined(); }
bool is_undefined(const Value& value) { return value.is_undefined(); }
bool is_none(const Value& value) { return value.is(Kind::kNone); }
bool is_boolean(const Value& value) { return value.is(Kind::kBool); }
bool is_true(const Value& value) { return value.is(Kind::kBool) && value.boolean; }
bool is_false(const Value& value) { return value.is(Kind::kBool) && !value.boolean; }
bool is_integer(const Value& value) { return value.is(Kind::kInt); }
bool is_float(const Value& value) { return value.is(Kind::kFloat); }
bool is_number(const Value& value) { return value.is_number(); }
bool is_string(const Value& value) { return value.is_string(); }
bool is_mapping(const Value& value) { return value.is(Kind::kDict); }
bool is_escaped(const Value& value) { return value.is_string() && value.string->markup; }
bool is_iterable_value(const Value& value) { return is_iterable(value) || value.is(Kind::kLoop); }
bool is_sequence(const Value& value) {
  return value.is_string() || value.is(Kind::kList) || value.is(Kind::kTuple) ||
         value.is(Kind::kDict) || value.is(Kind::kRange);
}
bool is_callable(const Value& value) {
  return value.is(Kind::kMacro) || value.is(Kind::kMethod) || value.is(Kind::kFunction) ||
         value.is(Kind::kLoop) || value.is(Kind::kJoiner) || value.is_undefined();
}

Value remainder(Runtime& runtime, const Value& value, const Value& by) {
  if (value.is_string()) runtime.fail("a str has no remainder");
  return arithmetic(runtime, ExprKind::kModulo, value, by);
}

bool is_odd(Runtime& runtime, const Value& value, const Arguments& arguments) {
  no_arguments(runtime, arguments);
  return equal(runtime, remainder(runtime, value, integer(2)), integer(1));
}

bool is_even(Runtime& runtime, const Value& value, const Arguments& arguments) {
  no_arguments(runtime, arguments);
  return equal(runtime, remainder(runtime, value, integer(2)), integer(0));
}

bool is_divisible(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return equal(runtime, remainder(runtime, value, argument(runtime, arguments)), integer(0));
}

// str.islower() or str.isupper(): there are letters with case, and all are in it.
template <bool (*kWanted)(char32_t), bool (*kOther)(char32_t)>
bool has_case(Runtime& runtime, const Value& value, const Arguments& arguments) {
  no_arguments(runtime, arguments);
  if (!value.is_string()) return false;
  bool any = false;
  for (std::size_t at = 0; at < value.text().size();) {
    const Char c = char_at(value.text(), at);
    if (kOther(c.code)) return false;
    any |= kWanted(c.code);
    at += c.size;
  }
  return any;
}

bool is_same(Runtime& runtime, const Value& value, const Arguments& arguments) {
  const Value other = argument(runtime, arguments);
  if (value.kind != other.kind) return false;
  switch (value.kind) {
    case Kind::kNone: return true;
    case Kind::kList:
    case Kind::kTuple:
    case Kind::kView: return value.sequence == other.sequence;
    case Kind::kDict: return value.dict == other.dict;
    case Kind::kUndefined: return value.missing == other.missing;
    default: return equal(runtime, value, other);
  }
}

bool is_in(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return contains(runtime, argument(runtime, arguments), value);
}

bool is_filter(Runtime& runtime, const Value& value, const Arguments& arguments) {
  no_arguments(runtime, arguments);
  return value.is_string() && find_filter(value.text()) != nullptr;
}

bool is_test(Runtime& runtime, const Value& value, const Arguments& arguments) {
  no_arguments(runtime, arguments);
  return value.is_string() && find_test(value.text()) != nullptr;
}

bool is_equal(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return equal(runtime, value, argument(runtime, arguments));
}
bool is_unequal(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return !equal(runtime, value, argument(runtime, arguments));
}
bool is_less(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return compare(runtime, value, argument(runtime, arguments), "<") < 0;
}
bool is_at_most(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return compare(runtime, value, argument(runtime, arguments), "<=") <= 0;
}
bool is_greater(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return compare(runtime, value, argument(runtime, arguments), ">") > 0;
}
bool is_at_least(Runtime& runtime, const Value& value, const Arguments& arguments) {
  return compare(runtime, value, argument(runtime, arguments), ">=") >= 0;
}

constexpr auto kTests = std::to_array<Test>({
    {"defined", plain<is_defined>},
    {"undefined", plain<is_undefined>},
    {"none", plain<is_none>},
    {"boolean", plain<is_boolean>},
    {"true", plain<is_true>},
    {"false", plain<is_false>},
    {"integer", plain<is_integer>},
    {"float", plain<is_float>},
    {"number", plain<is_number>},
    {"string", plain<is_string>},
    {"mapping", plain<is_mapping>},
    {"sequence", plain<is_sequence>},
    {"iterable", plain<is_iterable_value>},
    {"callable", plain<is_callable>},
    {"escaped", plain<is_escaped>},
    {"odd", is_odd},
    {"even", is_even},
    {"divisibleby", is_divisible},
    {"lower", has_case<is_lower, is_upper>},
    {"upper", has_case<is_upper, is_lower>},
    {"sameas", is_same},
    {"in", is_in},
    {"filter", is_filter},
    {"test", is_test},
    {"eq", is_equal},
    {"equalto", is_equal},
    {"==", is_equal},
    {"ne", is_unequal},
    {"!=", is_unequal},
    {"lt", is_less},
    {"lessthan", is_less},
    {"<", is_less},
    {"le", is_at_most},
    {"<=", is_at_most},
    {"gt", is_greater},
    {"greaterthan", is_greater},
    {">", is_greater},
    {"ge", is_at_least},
    {">=", is_at_least},
});

}  // namespace

const Test* find_test(std::string_view name) {
  const auto found = std::find_if(kTests.begin(), kTests.end(),
                                  [name](const Test& test) { return test.name == name; });
  return found == kTests.end() ? nullptr : &*found;
}

}  // namespace quern::text::jinja
