// Typed, range-checked access to the metadata keys of a GGUF file, as config_fields.h is for JSON.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/error.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/gguf.h"

namespace quern::checkpoint {

// Does not own the header.
class GgufFields {
 public:
  // `prefix` ("llama.") is put before every key.
  GgufFields(const GgufHeader& header, std::string prefix)
      : header_(header), prefix_(std::move(prefix)) {}

  // Each throws kConfigFieldInvalid for another type or a value out of the range.
  std::optional<std::int64_t> integer(std::string_view key, std::int64_t low,
                                      std::int64_t high) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto number = value->integer();
    if (!number || *number < low || *number > high) {
      invalid(key, *value, fmt::format("an integer from {} to {}", low, high));
    }
    return number;
  }
  std::optional<double> number(std::string_view key, double low, double high) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto number = value->number();
    if (!number || !(*number >= low && *number <= high)) {
      invalid(key, *value, fmt::format("a number from {} to {}", low, high));
    }
    return number;
  }
  std::optional<bool> boolean(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto flag = value->boolean();
    if (!flag) invalid(key, *value, "a boolean");
    return flag;
  }
  std::optional<std::string> string(std::string_view key) const {
    const GgufValue* value = find(key);
    if (value == nullptr) return std::nullopt;
    const auto text = value->string();
    if (!text) invalid(key, *value, "a string");
    return std::string(*text);
  }
  std::int64_t required_integer(std::string_view key, std::int64_t low, std::int64_t high) const {
    const auto value = integer(key, low, high);
    if (!value) missing(key);
    return *value;
  }

  const GgufValue* find(std::string_view key) const {
    return header_.find(prefix_ + std::string(key));
  }
  [[noreturn]] void missing(std::string_view key) const {
    throw Error(errors::kConfigFieldMissing, {{"file", header_.file},
                                              {"field", prefix_ + std::string(key)},
                                              {"architecture", "its architecture"}});
  }
  [[noreturn]] void invalid(std::string_view key, const GgufValue& value,
                            std::string_view expected) const {
    throw Error(errors::kConfigFieldInvalid,
                {{"file", header_.file},
                 {"field", fmt::format("{}{} (byte {})", prefix_, key, value.offset)},
                 {"value", value.excerpt()},
                 {"expected", expected}});
  }

 private:
  const GgufHeader& header_;
  std::string prefix_;
};

}  // namespace quern::checkpoint
