#include "text/jinja/json_values.h"

#include <simdjson.h>

#include <vector>

namespace quern::text::jinja {
namespace {

using simdjson::dom::element;
using simdjson::dom::element_type;

constexpr std::size_t kMaxDepth = 200;

Value value_of(Runtime& runtime, const element& item) {
  switch (item.type()) {
    case element_type::ARRAY: {
      std::vector<Value> items;
      for (const element& inner : simdjson::dom::array(item)) {
        items.push_back(value_of(runtime, inner));
      }
      return runtime.list(items);
    }
    case element_type::OBJECT: {
      std::vector<Entry> entries;
      for (const auto& [key, inner] : simdjson::dom::object(item)) {
        const Value name = runtime.text(key, true);
        entries.push_back({name, value_of(runtime, inner)});
      }
      return runtime.dict(entries);
    }
    case element_type::INT64: return integer(std::int64_t(item));
    case element_type::UINT64: return integer(static_cast<Int>(std::uint64_t(item)));
    case element_type::DOUBLE: return real(double(item));
    case element_type::STRING: return runtime.text(std::string_view(item), true);
    case element_type::BOOL: return boolean(bool(item));
    default: return none();
  }
}

}  // namespace

std::optional<Value> parse_json(Runtime& runtime, std::string_view json) {
  simdjson::dom::parser parser;
  element document;
  // A capacity that is set beforehand brings the limit of depth along.
  if (parser.allocate(std::max<std::size_t>(json.size(), 64), kMaxDepth) != simdjson::SUCCESS ||
      parser.parse(json.data(), json.size()).get(document) != simdjson::SUCCESS) {
    return std::nullopt;
  }
  return value_of(runtime, document);
}

}  // namespace quern::text::jinja
