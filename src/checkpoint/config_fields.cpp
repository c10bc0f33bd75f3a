#include "checkpoint/config_fields.h"

#include <cmath>
#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/json.h"

namespace quern::checkpoint {

ConfigFields::ConfigFields(std::vector<const nlohmann::json*> objects,
                           const nlohmann::json& defaults, std::string file,
                           std::string architecture, std::string prefix)
    : objects_(std::move(objects)),
      defaults_(defaults),
      file_(std::move(file)),
      architecture_(std::move(architecture)),
      prefix_(std::move(prefix)) {}

// A null in the file means "none" and hides the class's default, as in Python.
ConfigFields::Found ConfigFields::lookup(FieldNames names) const {
  bool written_as_null = false;
  for (const nlohmann::json* object : objects_) {
    for (const std::string_view name : names) {
      const auto it = object->find(name);
      if (it == object->end()) continue;
      if (!it->is_null()) return {&*it, name};
      written_as_null = true;
    }
  }
  if (written_as_null) return {};
  for (const std::string_view name : names) {
    const auto it = defaults_.find(name);
    if (it != defaults_.end()) return {&*it, name};
  }
  return {};
}

const nlohmann::json* ConfigFields::find(FieldNames names) const { return lookup(names).value; }

void ConfigFields::missing(std::string_view name) const {
  throw Error(
      errors::kConfigFieldMissing,
      {{"file", file_}, {"field", prefix_ + std::string(name)}, {"architecture", architecture_}});
}

void ConfigFields::invalid(std::string_view name, const nlohmann::json& value,
                           std::string_view expected) const {
  throw Error(errors::kConfigFieldInvalid, {{"file", file_},
                                            {"field", prefix_ + std::string(name)},
                                            {"value", json_excerpt(value)},
                                            {"expected", expected}});
}

std::int64_t ConfigFields::checked_integer(const nlohmann::json& value, std::string_view name,
                                           std::int64_t low, std::int64_t high) const {
  // Unsigned values above int64's range would turn negative and be told wrongly.
  const bool fits = value.is_number_integer() &&
                    !(value.is_number_unsigned() && value.get<std::uint64_t>() > INT64_MAX);
  if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high) {
    invalid(name, value, fmt::format("an integer from {} to {}", low, high));
  }
  return value.get<std::int64_t>();
}

std::optional<std::int64_t> ConfigFields::integer(FieldNames names, std::int64_t low,
                                                  std::int64_t high) const {
  const Found found = lookup(names);
  if (found.value == nullptr) return std::nullopt;
  return checked_integer(*found.value, found.name, low, high);
}

std::optional<double> ConfigFields::number(FieldNames names, double low, double high) const {
  const Found found = lookup(names);
  if (found.value == nullptr) return std::nullopt;
  const double value = found.value->is_number() ? found.value->get<double>() : NAN;
  if (!(value >= low && value <= high)) {
    invalid(found.name, *found.value, fmt::format("a number from {} to {}", low, high));
  }
  return value;
}

std::optional<bool> ConfigFields::boolean(FieldNames names) const {
  const Found found = lookup(names);
  if (found.value == nullptr) return std::nullopt;
  if (!found.value->is_boolean()) invalid(found.name, *found.value, "true or false");
  return found.value->get<bool>();
}

std::optional<std::string> ConfigFields::word(FieldNames names) const {
  const Found found = lookup(names);
  if (found.value == nullptr) return std::nullopt;
  if (!found.value->is_string()) invalid(found.name, *found.value, "a string");
  return found.value->get<std::string>();
}

std::vector<std::int64_t> ConfigFields::integers(FieldNames names, std::int64_t low,
                                                 std::int64_t high) const {
  const Found found = lookup(names);
  if (found.value == nullptr) return {};
  if (!found.value->is_array()) return {checked_integer(*found.value, found.name, low, high)};
  std::vector<std::int64_t> values;
  for (const auto& element : *found.value) {
    values.push_back(checked_integer(element, found.name, low, high));
  }
  return values;
}

std::int64_t ConfigFields::required_integer(FieldNames names, std::int64_t low,
                                            std::int64_t high) const {
  const auto value = integer(names, low, high);
  if (!value) missing(*names.begin());
  return *value;
}

double ConfigFields::required_number(FieldNames names, double low, double high) const {
  const auto value = number(names, low, high);
  if (!value) missing(*names.begin());
  return *value;
}

}  // namespace quern::checkpoint
