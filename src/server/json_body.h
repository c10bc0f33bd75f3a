// Request bodies: parses a client's JSON within bounds and reads typed fields from it. Every
// complaint is a 400 that names the field in `param`. Used by openai_api, native_api and pages.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::server {

using Json = nlohmann::ordered_json;  // objects keep the order of their members
using JsonOut = Json;                 // what is answered

inline constexpr int kMaxJsonDepth = 100;
inline constexpr std::int64_t kMaxJsonValues = 2'000'000;
// Finding a member costs as many comparisons as the object has members; so many in one body.
inline constexpr std::int64_t kMaxJsonComparisons = 50'000'000;

// The object that a body holds. Of a name that stands twice the last value counts. Depth and number
// of values are checked before anything is built. Throws: kInvalidJson, kWrongFieldType.
Json parse_object(std::string_view body);

// Reads the fields of one JSON object; null counts as absent. `where` is put before the names in
// messages ("sampling_params."). Throws: kWrongFieldType, kFieldOutOfRange.
class Fields {
 public:
  explicit Fields(const Json& object, std::string where = "")
      : object_(object), where_(std::move(where)) {}

  // The value, or null where it is absent.
  const Json* find(std::string_view name) const;
  std::string param(std::string_view name) const { return where_ + std::string(name); }

  std::optional<bool> boolean(std::string_view name) const;
  std::optional<std::string> text(std::string_view name) const;
  // Integers may be written as 5 or 5.0.
  std::optional<std::int64_t> integer(std::string_view name, std::int64_t low,
                                      std::int64_t high) const;
  std::optional<double> number(std::string_view name, double low, double high) const;
  // Any integer of 64 bits, signed or not.
  std::optional<std::uint64_t> seed(std::string_view name) const;

  [[noreturn]] void wrong_type(std::string_view name, std::string_view expected,
                               const Json& actual) const;
  [[noreturn]] void out_of_range(std::string_view name, std::string_view expected,
                                 const Json& actual) const;

 private:
  const Json& object_;
  std::string where_;
};

// Token ids in [0, 2^31). `param` names the array in messages. Throws: kWrongFieldType,
// kFieldOutOfRange.
std::vector<std::int32_t> token_ids(const Json& array, const std::string& param);

// JSON text in valid UTF-8 whatever the strings hold.
std::string dump(const Json& json);

}  // namespace quern::server
