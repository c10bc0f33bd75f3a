// JSON from a server or a file: parsed within a depth, never throwing. The caller bounds its size.
#pragma once

#include <nlohmann/json.hpp>
#include <string_view>

namespace quern::load {

using Json = nlohmann::ordered_json;

inline constexpr int kMaxJsonDepth = 64;

// A discarded value where the text is no JSON. What lies deeper than kMaxJsonDepth is left out.
inline Json parse_bounded(std::string_view text) {
  return Json::parse(
      text, [](int depth, Json::parse_event_t, Json&) { return depth <= kMaxJsonDepth; }, false);
}

}  // namespace quern::load
