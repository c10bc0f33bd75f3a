#include "text/json_fields.h"

#include "text/vocabulary.h"

namespace quern::text {
namespace {

constexpr std::size_t kMaxBytes = std::size_t{128} << 20;
constexpr std::size_t kMaxDepth = 32;

}  // namespace

JsonFields::object JsonFields::parse(const std::string& text, std::string_view what,
                                     simdjson::dom::parser& parser) const {
  if (text.size() > kMaxBytes) {
    fail(fmt::format("{} has {} bytes (at most {})", what, text.size(), kMaxBytes));
  }
  element document;
  simdjson::error_code error = parser.allocate(text.size(), kMaxDepth);
  if (error == simdjson::SUCCESS) error = parser.parse(text.data(), text.size()).get(document);
  if (error != simdjson::SUCCESS) {
    fail(fmt::format("{} cannot be read: {}", what, simdjson::error_message(error)));
  }
  return object_of(document, what);
}

void JsonFields::fail(std::string what) const {
  throw Error(errors::kTokenizerInvalid, {{"origin", origin_}, {"what", what}});
}

void JsonFields::refuse(std::string_view component, std::string_view value,
                        std::string_view allowed) const {
  throw Error(
      errors::kTokenizerUnsupported,
      {{"component", component}, {"origin", origin_}, {"value", value}, {"allowed", allowed}});
}

std::optional<JsonFields::element> JsonFields::member(const object& from,
                                                      std::string_view key) const {
  element value;
  if (from.at_key(key).get(value) != simdjson::SUCCESS || value.is_null()) return std::nullopt;
  return value;
}

JsonFields::element JsonFields::required(const object& from, std::string_view key,
                                         std::string_view what) const {
  const std::optional<element> value = member(from, key);
  if (!value) fail(fmt::format("{} has no {}", what, key));
  return *value;
}

JsonFields::object JsonFields::object_of(const element& value, std::string_view what) const {
  object out;
  if (value.get(out) != simdjson::SUCCESS) fail(fmt::format("{} is not an object", what));
  return out;
}

JsonFields::array JsonFields::array_of(const element& value, std::string_view what) const {
  array out;
  if (value.get(out) != simdjson::SUCCESS) fail(fmt::format("{} is not a list", what));
  return out;
}

std::string_view JsonFields::string_of(const element& value, std::string_view what) const {
  std::string_view out;
  if (value.get(out) != simdjson::SUCCESS) fail(fmt::format("{} is not a string", what));
  return out;
}

std::int64_t JsonFields::integer_of(const element& value, std::string_view what) const {
  std::int64_t out = 0;
  if (value.get(out) != simdjson::SUCCESS) fail(fmt::format("{} is not an integer", what));
  return out;
}

bool JsonFields::flag(const object& from, std::string_view key, std::optional<bool> absent) const {
  const std::optional<element> value = member(from, key);
  if (!value && absent) return *absent;
  bool out = false;
  if (!value || value->get(out) != simdjson::SUCCESS) {
    fail(fmt::format("{} is missing or not true or false", key));
  }
  return out;
}

std::int64_t JsonFields::integer(const object& from, std::string_view key, std::int64_t absent,
                                 std::int64_t lowest, std::int64_t highest) const {
  const std::optional<element> value = member(from, key);
  if (!value) return absent;
  const std::int64_t out = integer_of(*value, key);
  if (out < lowest || out > highest) {
    fail(fmt::format("{} is {}, not {} to {}", key, out, lowest, highest));
  }
  return out;
}

std::string_view JsonFields::text(const object& from, std::string_view key,
                                  std::string_view absent) const {
  const std::optional<element> value = member(from, key);
  return value ? string_of(*value, key) : absent;
}

std::string_view JsonFields::type_of(const object& from, std::string_view what) const {
  return string_of(required(from, "type", what), fmt::format("{}.type", what));
}

}  // namespace quern::text
