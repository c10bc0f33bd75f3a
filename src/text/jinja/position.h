// Places in a template's source, for messages: line, column, and the line with a caret below.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"

namespace quern::text::jinja {

struct Position {
  std::size_t line, column;  // from 1; columns count characters
};

Position position_of(std::string_view source, std::uint32_t at);
// Two lines: the source around the place, at most some 100 characters of it, and a caret below.
std::string excerpt(std::string_view source, std::uint32_t at);

// Throws an Error with the fields reason, line and column, and the excerpt as its hint.
[[noreturn]] void fail_at(ErrorId id, std::string_view source, std::uint32_t at,
                          std::string_view reason);

}  // namespace quern::text::jinja
