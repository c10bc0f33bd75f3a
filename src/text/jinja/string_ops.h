// What methods of str and filters on text share. All keep track of where the bytes come from.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/jinja/runtime.h"
#include "text/jinja/unicode.h"
#include "text/jinja/value.h"

namespace quern::text::jinja {

enum class Side : std::uint8_t { kBoth, kLeft, kRight };
// Without the characters of `chars` at its ends; null: without white space.
Value stripped(Runtime& runtime, const Str& text, const Str* chars, Side side);
Value cased(Runtime& runtime, const Str& text, Case wanted);
Value capitalized(Runtime& runtime, const Str& text);
// `limit` < 0: all.
Value replaced(Runtime& runtime, const Str& text, const Str& old, const Str& fresh,
               std::int64_t limit);
Value joined(Runtime& runtime, const Str& separator, std::span<const Value> texts);
std::vector<Value> split(Runtime& runtime, const Str& text, std::string_view separator,
                         std::int64_t limit, bool from_right);
std::vector<Value> split_words(Runtime& runtime, const Str& text, std::int64_t limit,
                               bool from_right);
std::vector<Value> split_lines(Runtime& runtime, const Str& text, bool keep_ends);

}  // namespace quern::text::jinja
