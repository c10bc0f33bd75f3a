// JSON text as values of a rendering. All texts of it count as data of the request.
#pragma once

#include <optional>
#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace quern::text::jinja {

// nullopt: the text is not JSON in valid UTF-8, or is nested more than 200 deep.
std::optional<Value> parse_json(Runtime& runtime, std::string_view json);

}  // namespace quern::text::jinja
