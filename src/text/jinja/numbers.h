// Numbers as int() and float() read them from text, and as round() rounds them.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "text/jinja/value.h"

namespace quern::text::jinja {

// nullopt: the text is no such number, or has more than 128 bits. Base 0 goes by the prefix.
std::optional<Int> parse_int(std::string_view text, std::int64_t base);
std::optional<double> parse_float(std::string_view text);
// Exactly, halves to even. Requires: places in [-300, 300].
double rounded(double value, int places);

}  // namespace quern::text::jinja
