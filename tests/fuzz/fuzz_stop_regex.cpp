// libFuzzer target: the first line as a stop regex, the rest as a text that comes in pieces. What
// is refused must be refused by an Error; a match must lie in the text, and end in bounded time.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/stop_regex.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using quern::text::StopRegex;
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  const std::size_t line = std::min(input.find('\n'), input.size());
  const std::string text = quern::valid_utf8(input.substr(std::min(line + 1, size)));
  try {
    const StopRegex regex{std::string(input.substr(0, line))};
    std::size_t start = 0;
    for (std::size_t end = 0; end <= text.size() && end < 256; ++end) {
      if (end < text.size() && (text[end] & 0xC0) == 0x80) continue;
      const std::string_view so_far = std::string_view(text).substr(0, end);
      const StopRegex::Found found = regex.find(so_far, start, end == text.size());
      if (found.kind == StopRegex::Kind::kNone) {
        start = end;
      } else if (found.kind != StopRegex::Kind::kPartial) {
        break;
      }
      if (found.begin > end || found.end > end || found.begin > found.end) __builtin_trap();
    }
  } catch (const quern::Error&) {
  }
  return 0;
}
