#include "text/jinja/operators.h"

#include <fmt/format.h>

#include <cmath>

#include "text/jinja/format.h"
#include "text/jinja/protocol.h"

namespace quern::text::jinja {
namespace {

const char* symbol_of(ExprKind kind) {
  switch (kind) {
    case ExprKind::kAdd: return "+";
    case ExprKind::kSubtract: return "-";
    case ExprKind::kMultiply: return "*";
    case ExprKind::kDivide: return "/";
    case ExprKind::kFloorDivide: return "//";
    case ExprKind::kModulo: return "%";
    default: return "**";
  }
}

[[noreturn]] void too_large(const Runtime& runtime) {
  runtime.fail("an integer gets more than 128 bits");
}

[[noreturn]] void mismatch(const Runtime& runtime, ExprKind kind, const Value& a, const Value& b) {
  if (a.is_undefined()) runtime.fail_undefined(a);
  if (b.is_undefined()) runtime.fail_undefined(b);
  runtime.fail(
      fmt::format("'{}' does not take a {} and a {}", symbol_of(kind), type_name(a), type_name(b)));
}

Int multiplied(const Runtime& runtime, Int a, Int b) {
  Int product = 0;
  if (__builtin_mul_overflow(a, b, &product)) too_large(runtime);
  return product;
}

double floor_modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest == 0 ? std::copysign(0.0, b) : rest;
}

Value power(Runtime& runtime, const Value& a, const Value& b) {
  if (!a.is_integral() || !b.is_integral() || b.as_int() < 0) {
    const double base = a.as_double(), exponent = b.as_double();
    if (base == 0 && exponent < 0) runtime.fail("0 has no negative power");
    const double result = std::pow(base, exponent);
    if (std::isnan(result) && !std::isnan(base) && !std::isnan(exponent)) {
      runtime.fail("complex numbers are not served");
    }
    if (std::isinf(result) && std::isfinite(base) && std::isfinite(exponent)) {
      runtime.fail("the result of '**' is too large");
    }
    return real(result);
  }
  Int base = a.as_int(), result = 1;
  for (Int exponent = b.as_int(); exponent > 0; exponent >>= 1) {
    if (exponent & 1) result = multiplied(runtime, result, base);
    if (exponent > 1) {
      if (base == 0 || base == 1) return integer(result * base);
      base = base == -1 ? 1 : multiplied(runtime, base, base);
    }
  }
  return integer(result);
}

Value integers(Runtime& runtime, ExprKind kind, Int a, Int b) {
  Int result = 0;
  switch (kind) {
    case ExprKind::kAdd:
      if (__builtin_add_overflow(a, b, &result)) too_large(runtime);
      return integer(result);
    case ExprKind::kSubtract:
      if (__builtin_sub_overflow(a, b, &result)) too_large(runtime);
      return integer(result);
    case ExprKind::kMultiply: return integer(multiplied(runtime, a, b));
    default: break;
  }
  if (b == 0) runtime.fail("division by zero");
  if (kind == ExprKind::kDivide) return real(static_cast<double>(a) / static_cast<double>(b));
  if (b == -1)
    return kind == ExprKind::kModulo ? integer(0) : integers(runtime, ExprKind::kSubtract, 0, a);
  const Int quotient = a / b, rest = a % b;
  const bool adjust = rest != 0 && (rest < 0) != (b < 0);  // towards minus infinity
  if (kind == ExprKind::kModulo) return integer(adjust ? rest + b : rest);
  return integer(adjust ? quotient - 1 : quotient);
}

Value floats(Runtime& runtime, ExprKind kind, double a, double b) {
  switch (kind) {
    case ExprKind::kAdd: return real(a + b);
    case ExprKind::kSubtract: return real(a - b);
    case ExprKind::kMultiply: return real(a * b);
    default: break;
  }
  if (b == 0) runtime.fail("division by zero");
  if (kind == ExprKind::kDivide) return real(a / b);
  if (kind == ExprKind::kModulo) return real(floor_modulo(a, b));
  return real(std::floor((a - floor_modulo(a, b)) / b + 0.5));
}

Value joined(Runtime& runtime, const Value& a, const Value& b) {
  const bool markup = a.string->markup || b.string->markup;
  const Value left = markup ? escaped(runtime, a) : a, right = markup ? escaped(runtime, b) : b;
  runtime.check_size(left.text().size() + right.text().size());
  MarkedText out;
  out.append(*left.string);
  out.append(*right.string);
  const Value sum = runtime.text(out);
  if (!markup) return sum;
  return string(runtime.arena().make<Str>(sum.text(), sum.string->origin, true, sum.string->data));
}

Value concatenated(Runtime& runtime, const Value& a, const Value& b) {
  std::vector<Value> items(a.sequence->items.begin(), a.sequence->items.end());
  items.insert(items.end(), b.sequence->items.begin(), b.sequence->items.end());
  return a.is(Kind::kList) ? runtime.list(items) : runtime.tuple(items);
}

Value repeated(Runtime& runtime, const Value& value, Int times) {
  if (value.is_string()) {
    runtime.check_product(value.text().size(), times);
    MarkedText out;
    for (Int i = 0; i < times && !value.text().empty(); ++i) out.append(*value.string);
    return runtime.text(out);
  }
  const std::span<const Value> all = value.sequence->items;
  runtime.check_product(all.size_bytes(), times);
  std::vector<Value> items;
  for (Int i = 0; i < times && !all.empty(); ++i) items.insert(items.end(), all.begin(), all.end());
  return value.is(Kind::kList) ? runtime.list(items) : runtime.tuple(items);
}

bool repeatable(const Value& value) {
  return value.is_string() || value.is(Kind::kList) || value.is(Kind::kTuple);
}

}  // namespace

Value arithmetic(Runtime& runtime, ExprKind kind, const Value& a, const Value& b) {
  if (a.is_number() && b.is_number()) {
    if (kind == ExprKind::kPower) return power(runtime, a, b);
    return a.is_integral() && b.is_integral() ? integers(runtime, kind, a.as_int(), b.as_int())
                                              : floats(runtime, kind, a.as_double(), b.as_double());
  }
  if (kind == ExprKind::kAdd) {
    if (a.is_string() && b.is_string()) return joined(runtime, a, b);
    if (a.kind == b.kind && (a.is(Kind::kList) || a.is(Kind::kTuple))) {
      return concatenated(runtime, a, b);
    }
  }
  if (kind == ExprKind::kMultiply) {
    if (repeatable(a) && b.is_integral()) return repeated(runtime, a, b.as_int());
    if (repeatable(b) && a.is_integral()) return repeated(runtime, b, a.as_int());
  }
  if (kind == ExprKind::kModulo && a.is_string()) return percent_format(runtime, *a.string, b);
  mismatch(runtime, kind, a, b);
}

Value negative(Runtime& runtime, const Value& value) {
  if (value.is(Kind::kFloat)) return real(-value.real);
  if (value.is_integral()) return integers(runtime, ExprKind::kSubtract, 0, value.as_int());
  if (value.is_undefined()) runtime.fail_undefined(value);
  runtime.fail(fmt::format("'-' does not take a {}", type_name(value)));
}

Value positive(Runtime& runtime, const Value& value) {
  if (value.is(Kind::kFloat)) return value;
  if (value.is_integral()) return integer(value.as_int());
  if (value.is_undefined()) runtime.fail_undefined(value);
  runtime.fail(fmt::format("'+' does not take a {}", type_name(value)));
}

}  // namespace quern::text::jinja
