// Server-sent events: the frames of a streamed answer.
#pragma once

#include <string>
#include <string_view>

namespace quern::server {

// `json` must not contain line breaks, which a JSON dump without indentation never does.
inline std::string sse_event(std::string_view json) {
  std::string frame = "data: ";
  frame += json;
  frame += "\n\n";
  return frame;
}

inline constexpr std::string_view kSseDone = "data: [DONE]\n\n";

}  // namespace quern::server
