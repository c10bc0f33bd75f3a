#include "text/jinja/numbers.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdlib>
#include <string>

#include "text/jinja/unicode.h"

namespace quern::text::jinja {
namespace {

std::int64_t digit_of(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if ((c | 32) >= 'a' && (c | 32) <= 'z') return (c | 32) - 'a' + 10;
  return 99;
}

std::int64_t base_of_prefix(std::string_view text) {
  if (text.size() < 3 || text[0] != '0') return 0;
  switch (text[1] | 32) {
    case 'x': return 16;
    case 'o': return 8;
    case 'b': return 2;
    default: return 0;
  }
}

}  // namespace

std::optional<Int> parse_int(std::string_view text, std::int64_t base) {
  text = strip_back(strip_front(text));
  const bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  const std::int64_t prefix = base_of_prefix(text);
  if (prefix != 0 && (base == 0 || base == prefix)) {
    text.remove_prefix(2);
    base = prefix;
  }
  if (base == 0) base = 10;
  if (text.empty() || base < 2 || base > 36) return std::nullopt;
  Int number = 0;
  bool after_digit = prefix != 0;
  for (const char c : text) {
    if (c == '_' && after_digit) {
      after_digit = false;
      continue;
    }
    const std::int64_t digit = digit_of(c);
    if (digit >= base || __builtin_mul_overflow(number, Int{base}, &number) ||
        __builtin_add_overflow(number, Int{digit}, &number)) {
      return std::nullopt;
    }
    after_digit = true;
  }
  if (!after_digit) return std::nullopt;
  return negative ? -number : number;
}

std::optional<double> parse_float(std::string_view text) {
  const std::string plain(strip_back(strip_front(text)));
  if (plain.empty() || plain.find_first_of("xXpP(") != std::string::npos) return std::nullopt;
  char* end = nullptr;
  const double number = std::strtod(plain.c_str(), &end);
  if (end != plain.c_str() + plain.size()) return std::nullopt;
  return number;
}

double rounded(double value, int places) {
  if (!std::isfinite(value)) return value;
  if (places >= 0) return std::strtod(fmt::format("{:.{}f}", value, places).c_str(), nullptr);
  const double scale = std::pow(10.0, -places);
  return std::nearbyint(value / scale) * scale;
}

}  // namespace quern::text::jinja
