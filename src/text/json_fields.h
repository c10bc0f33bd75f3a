// Typed access to a parsed tokenizer.json or tekken.json: an absent or null member is nullopt, one
// of another type an error that names the file. Views into the parser's document.
#pragma once

#include <simdjson.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/errors/text.h"

namespace quern::text {

class JsonFields {
 public:
  using array = simdjson::dom::array;
  using element = simdjson::dom::element;
  using object = simdjson::dom::object;

  explicit JsonFields(std::string origin) : origin_(std::move(origin)) {}
  const std::string& origin() const { return origin_; }

  // Parses `text` (what: its name) into `parser`; bounded in size and depth.
  object parse(const std::string& text, std::string_view what, simdjson::dom::parser& parser) const;

  // Throws kTokenizerInvalid.
  [[noreturn]] void fail(std::string what) const;
  // Throws kTokenizerUnsupported.
  [[noreturn]] void refuse(std::string_view component, std::string_view value,
                           std::string_view allowed) const;

  std::optional<element> member(const object& from, std::string_view key) const;
  element required(const object& from, std::string_view key, std::string_view what) const;
  object object_of(const element& value, std::string_view what) const;
  array array_of(const element& value, std::string_view what) const;
  std::string_view string_of(const element& value, std::string_view what) const;
  std::int64_t integer_of(const element& value, std::string_view what) const;
  // `absent` without a value: the member must be there.
  bool flag(const object& from, std::string_view key, std::optional<bool> absent) const;
  std::int64_t integer(const object& from, std::string_view key, std::int64_t absent,
                       std::int64_t lowest, std::int64_t highest) const;
  std::string_view text(const object& from, std::string_view key, std::string_view absent) const;
  std::string_view type_of(const object& from, std::string_view what) const;

 private:
  std::string origin_;
};

}  // namespace quern::text
