// Typed, range-checked access to the fields of one JSON object. A field may go by several names
// (hidden_size, d_model, n_embd): the first that the file has counts. What the file leaves out
// comes from the defaults of the model's class. Used by config.cpp and hf_folder.cpp.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::checkpoint {

using FieldNames = std::initializer_list<std::string_view>;

// References must outlive the object; it owns nothing but the words for messages.
class ConfigFields {
 public:
  // `objects` are searched in order, then `defaults`; `prefix` is put before names in messages.
  ConfigFields(std::vector<const nlohmann::json*> objects, const nlohmann::json& defaults,
               std::string file, std::string architecture, std::string prefix = "");

  // nullptr where no object has a field of these names, or where it is null.
  const nlohmann::json* find(FieldNames names) const;

  // Each throws kConfigFieldInvalid for another type or a value out of the range (both inclusive).
  std::optional<std::int64_t> integer(FieldNames names, std::int64_t low, std::int64_t high) const;
  std::optional<double> number(FieldNames names, double low, double high) const;
  std::optional<bool> boolean(FieldNames names) const;
  std::optional<std::string> word(FieldNames names) const;
  // An integer or a list of them; empty where the field is absent.
  std::vector<std::int64_t> integers(FieldNames names, std::int64_t low, std::int64_t high) const;

  // Throws: kConfigFieldMissing too.
  std::int64_t required_integer(FieldNames names, std::int64_t low, std::int64_t high) const;
  double required_number(FieldNames names, double low, double high) const;

  [[noreturn]] void missing(std::string_view name) const;
  [[noreturn]] void invalid(std::string_view name, const nlohmann::json& value,
                            std::string_view expected) const;
  const std::string& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }

 private:
  struct Found {
    const nlohmann::json* value = nullptr;
    std::string_view name;
  };
  Found lookup(FieldNames names) const;
  std::int64_t checked_integer(const nlohmann::json& value, std::string_view name, std::int64_t low,
                               std::int64_t high) const;

  std::vector<const nlohmann::json*> objects_;
  const nlohmann::json& defaults_;
  std::string file_, architecture_, prefix_;
};

}  // namespace quern::checkpoint
