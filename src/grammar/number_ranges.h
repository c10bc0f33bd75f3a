// The decimal notations of numbers within bounds, as alternatives of a grammar. Used for the
// numbers of JSON schemas.
#pragma once

#include <cstdint>
#include <optional>

#include "grammar/ebnf.h"

namespace quern::grammar {

// Without a bound an integer has at most this many digits, which a double holds exactly.
inline constexpr int kIntegerDigits = 15;
inline constexpr int kFractionDigits = 12;

// The rule of the integers in [low, high]; nothing satisfies it where there are none.
int integer_range(std::optional<std::int64_t> low, std::optional<std::int64_t> high, Ebnf* ebnf);

struct NumberBound {
  double value = 0;
  bool exclusive = false;
};
// The rule of the numbers within the bounds, without exponents. Requires: |value| ≤ kLargestBound.
inline constexpr double kLargestBound = 1e15;
int number_range(std::optional<NumberBound> low, std::optional<NumberBound> high, Ebnf* ebnf);

}  // namespace quern::grammar
