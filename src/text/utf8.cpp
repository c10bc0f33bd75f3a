#include "text/utf8.h"

#include <cstdint>

namespace quern::text {
namespace {

// What may follow a lead byte: how many bytes, and the range of the first of them, which shuts out
// overlong forms, surrogates and everything past U+10FFFF.
struct Lead {
  std::size_t length;  // 0: not a lead byte
  std::uint8_t low, high;
};

Lead lead_of(std::uint8_t byte) {
  if (byte < 0x80) return {1, 0, 0};
  if (byte < 0xC2) return {0, 0, 0};
  if (byte < 0xE0) return {2, 0x80, 0xBF};
  if (byte == 0xE0) return {3, 0xA0, 0xBF};
  if (byte == 0xED) return {3, 0x80, 0x9F};
  if (byte < 0xF0) return {3, 0x80, 0xBF};
  if (byte == 0xF0) return {4, 0x90, 0xBF};
  if (byte < 0xF4) return {4, 0x80, 0xBF};
  if (byte == 0xF4) return {4, 0x80, 0x8F};
  return {0, 0, 0};
}

}  // namespace

Utf8Step utf8_step(std::string_view text) {
  const Lead lead = lead_of(static_cast<std::uint8_t>(text[0]));
  if (lead.length == 0) return {1, Utf8Kind::kInvalid};
  std::uint8_t low = lead.low, high = lead.high;
  for (std::size_t i = 1; i < lead.length; ++i) {
    if (i == text.size()) return {i, Utf8Kind::kCut};
    const auto byte = static_cast<std::uint8_t>(text[i]);
    if (byte < low || byte > high) return {i, Utf8Kind::kInvalid};
    low = 0x80;
    high = 0xBF;
  }
  return {lead.length, Utf8Kind::kValid};
}

}  // namespace quern::text
