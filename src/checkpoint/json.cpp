#include "checkpoint/json.h"

#include <algorithm>

#include "base/error.h"
#include "base/errors/checkpoint.h"

namespace quern::checkpoint {
namespace {

constexpr std::size_t kMaxExcerpt = 80;

// Deepest nesting of brackets outside strings, for any text. Cost: O(n).
int nesting_depth(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
    } else if (c == '"') {
      in_string = true;
    } else if (c == '{' || c == '[') {
      deepest = std::max(deepest, ++depth);
    } else if (c == '}' || c == ']') {
      --depth;
    }
  }
  return deepest;
}

}  // namespace

nlohmann::json parse_json_object(std::string_view text, const std::string& file) {
  const auto invalid = [&](std::string_view reason) {
    return Error(errors::kCheckpointJsonInvalid, {{"file", file}, {"reason", reason}});
  };
  if (nesting_depth(text) > kMaxJsonDepth) {
    throw invalid(fmt::format("it is nested more than {} deep", kMaxJsonDepth));
  }
  if (text.find('\0') != text.npos) throw invalid("it holds a zero byte");  // nlohmann stops there
  nlohmann::json value;
  try {
    value = nlohmann::json::parse(text);
  } catch (const nlohmann::json::exception& fault) {
    std::string_view reason = fault.what();  // "[json.exception.parse_error.101] parse error at …"
    if (const auto end = reason.find("] "); end != reason.npos) reason.remove_prefix(end + 2);
    throw invalid(reason.substr(0, 200));
  }
  if (!value.is_object()) throw invalid("it is not an object");
  return value;
}

std::string json_excerpt(const nlohmann::json& value) {
  std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  if (text.size() > kMaxExcerpt) text = valid_utf8(text.substr(0, kMaxExcerpt)) + "…";
  return text;
}

}  // namespace quern::checkpoint
