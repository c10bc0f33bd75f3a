#include "server/json_body.h"

#include <cmath>
#include <limits>

#include "base/error.h"
#include "base/errors/server.h"

namespace quern::server {
namespace {

constexpr double kExactIntegers = 9007199254740992.0;  // 2^53

[[noreturn]] void invalid(std::string_view reason) {
  throw Error(errors::kInvalidJson, {{"reason", reason}});
}

// A cheap pass over the brackets, so that no hostile nesting or count reaches the parser.
void check_bounds(std::string_view body) {
  int depth = 0;
  std::int64_t values = 1;
  std::int64_t comparisons = 0;
  std::vector<std::int64_t> members;  // of each open object; of arrays it stays 0
  std::vector<bool> is_object;
  bool quoted = false;
  for (size_t i = 0; i < body.size(); ++i) {
    const char c = body[i];
    if (quoted) {
      if (c == '\\') {
        ++i;
      } else if (c == '"') {
        quoted = false;
      }
    } else if (c == '"') {
      quoted = true;
    } else if (c == '[' || c == '{') {
      ++values;
      if (++depth > kMaxJsonDepth) {
        invalid(fmt::format("it is nested more than {} deep", kMaxJsonDepth));
      }
      members.push_back(0);
      is_object.push_back(c == '{');
    } else if (c == ']' || c == '}') {
      --depth;
      if (!members.empty()) {
        members.pop_back();
        is_object.pop_back();
      }
    } else if (c == ',') {
      if (++values > kMaxJsonValues) {
        invalid(fmt::format("it has more than {} values", kMaxJsonValues));
      }
      if (!members.empty() && is_object.back()) comparisons += ++members.back();
      if (comparisons > kMaxJsonComparisons) invalid("an object has too many members");
    }
  }
}

std::string shortened(const Json& value) {
  std::string text = dump(value);
  constexpr size_t kShown = 60;
  if (text.size() > kShown) text = valid_utf8(text.substr(0, kShown)) + "…";
  return text;
}

std::string_view type_words(const Json& value) {
  switch (value.type()) {
    case Json::value_t::null: return "null";
    case Json::value_t::object: return "an object";
    case Json::value_t::array: return "an array";
    case Json::value_t::string: return "a string";
    case Json::value_t::boolean: return "a boolean";
    default: return "a number";
  }
}

}  // namespace

Json parse_object(std::string_view body) {
  if (body.empty()) invalid("it is empty");
  if (body.starts_with("\xEF\xBB\xBF")) invalid("it begins with a byte-order mark");
  check_bounds(body);
  Json json;
  try {
    json = Json::parse(body);
  } catch (const Json::exception& failure) {
    std::string_view what = failure.what();
    if (const size_t end = what.find("] "); end != what.npos) what.remove_prefix(end + 2);
    invalid(what);
  }
  if (!json.is_object()) {
    throw Error(errors::kWrongFieldType,
                {{"param", "body"}, {"expected", "a JSON object"}, {"actual", type_words(json)}});
  }
  return json;
}

const Json* Fields::find(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void Fields::wrong_type(std::string_view name, std::string_view expected,
                        const Json& actual) const {
  throw Error(errors::kWrongFieldType,
              {{"param", param(name)}, {"expected", expected}, {"actual", type_words(actual)}});
}

void Fields::out_of_range(std::string_view name, std::string_view expected,
                          const Json& actual) const {
  throw Error(errors::kFieldOutOfRange,
              {{"param", param(name)}, {"expected", expected}, {"actual", shortened(actual)}});
}

std::optional<bool> Fields::boolean(std::string_view name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_boolean()) wrong_type(name, "true or false", *value);
  return value->get<bool>();
}

std::optional<std::string> Fields::text(std::string_view name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_string()) wrong_type(name, "a string", *value);
  return value->get<std::string>();
}

std::optional<std::int64_t> Fields::integer(std::string_view name, std::int64_t low,
                                            std::int64_t high) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) wrong_type(name, "an integer", *value);
  const std::string expected = high == std::numeric_limits<std::int64_t>::max()
                                   ? fmt::format("an integer of {} or more", low)
                                   : fmt::format("an integer from {} to {}", low, high);
  std::int64_t number = 0;
  if (value->is_number_float()) {
    const double real = value->get<double>();
    if (!(std::fabs(real) <= kExactIntegers) || real != std::trunc(real)) {
      out_of_range(name, expected, *value);
    }
    number = static_cast<std::int64_t>(real);
  } else if (value->is_number_unsigned() &&
             value->get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    out_of_range(name, expected, *value);
  } else {
    number = value->get<std::int64_t>();
  }
  if (number < low || number > high) out_of_range(name, expected, *value);
  return number;
}

std::optional<double> Fields::number(std::string_view name, double low, double high) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) wrong_type(name, "a number", *value);
  const double number = value->get<double>();
  if (!(number >= low && number <= high)) {
    out_of_range(name, fmt::format("a number from {} to {}", low, high), *value);
  }
  return number;
}

std::optional<std::uint64_t> Fields::seed(std::string_view name) const {
  const Json* value = find(name);
  if (!value) return std::nullopt;
  if (!value->is_number()) wrong_type(name, "an integer", *value);
  if (value->is_number_unsigned()) return value->get<std::uint64_t>();
  if (!value->is_number_integer()) out_of_range(name, "an integer of 64 bits", *value);
  return static_cast<std::uint64_t>(value->get<std::int64_t>());
}

std::vector<std::int32_t> token_ids(const Json& array, const std::string& param) {
  if (!array.is_array()) {
    throw Error(
        errors::kWrongFieldType,
        {{"param", param}, {"expected", "an array of token ids"}, {"actual", type_words(array)}});
  }
  std::vector<std::int32_t> ids;
  ids.reserve(array.size());
  for (const Json& value : array) {
    if (!value.is_number_integer()) {
      throw Error(errors::kWrongFieldType, {{"param", param},
                                            {"expected", "an array of token ids"},
                                            {"actual", "one with " + shortened(value)}});
    }
    const bool huge = value.is_number_unsigned() && value.get<std::uint64_t>() > INT32_MAX;
    if (huge || value.get<std::int64_t>() < 0) {
      throw Error(errors::kFieldOutOfRange, {{"param", param},
                                             {"expected", "an array of token ids"},
                                             {"actual", "one with " + shortened(value)}});
    }
    ids.push_back(value.get<std::int32_t>());
  }
  return ids;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace quern::server
