// The filters and tests of Jinja's environment, and transformers' tojson. Tables by name; the
// parser refuses a name that is not in them.
#pragma once

#include <string_view>

#include "text/jinja/runtime.h"
#include "text/jinja/value.h"

namespace quern::text::jinja {

struct Filter {
  std::string_view name;
  Value (*apply)(Runtime& runtime, const Value& value, const Arguments& arguments);
};

struct Test {
  std::string_view name;
  bool (*holds)(Runtime& runtime, const Value& value, const Arguments& arguments);
};

// Null where there is none of that name.
const Filter* find_filter(std::string_view name);
const Test* find_test(std::string_view name);

// The parts of that table (filters_text.cpp, filters_items.cpp).
std::span<const Filter> text_filters();
std::span<const Filter> item_filters();

}  // namespace quern::text::jinja
