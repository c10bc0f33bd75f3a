#include "text/jinja/filters.h"

#include <algorithm>

namespace quern::text::jinja {

const Filter* find_filter(std::string_view name) {
  for (const std::span<const Filter> table : {text_filters(), item_filters()}) {
    const auto found = std::find_if(table.begin(), table.end(),
                                    [name](const Filter& filter) { return filter.name == name; });
    if (found != table.end()) return &*found;
  }
  return nullptr;
}

}  // namespace quern::text::jinja
