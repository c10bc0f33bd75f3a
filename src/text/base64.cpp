#include "text/base64.h"

#include <array>
#include <cstdint>

namespace quern::text {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

const std::array<std::int8_t, 256>& values() {
  static const std::array<std::int8_t, 256> table = [] {
    std::array<std::int8_t, 256> out;
    out.fill(-1);
    for (std::size_t i = 0; i < kDigits.size(); ++i) {
      out[static_cast<std::uint8_t>(kDigits[i])] = static_cast<std::int8_t>(i);
    }
    return out;
  }();
  return table;
}

}  // namespace

std::optional<std::string> from_base64(std::string_view text) {
  for (int i = 0; i < 2 && text.ends_with('='); ++i) text.remove_suffix(1);
  if (text.size() % 4 == 1) return std::nullopt;
  std::string bytes;
  bytes.reserve(text.size() / 4 * 3 + 3);
  std::uint32_t bits = 0;
  int count = 0;
  for (const char c : text) {
    const std::int8_t digit = values()[static_cast<std::uint8_t>(c)];
    if (digit < 0) return std::nullopt;
    bits = bits << 6 | static_cast<std::uint32_t>(digit);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

}  // namespace quern::text
