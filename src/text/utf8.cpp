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

char32_t next_char(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const char32_t lead = byte(at);
  if (lead < 0x80) return text[at++];
  const std::size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  char32_t code = lead & (0x7Fu >> length);
  for (std::size_t i = 1; i < length; ++i) code = code << 6 | (byte(at + i) & 0x3Fu);
  at += length;
  return code;
}

void append_utf8(char32_t code, std::string& out) {
  if (code < 0x80) {
    out += static_cast<char>(code);
    return;
  }
  const int more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  out += static_cast<char>((0xFF00u >> (more + 1) & 0xFFu) | code >> 6 * more);
  for (int i = more - 1; i >= 0; --i) out += static_cast<char>(0x80u | (code >> 6 * i & 0x3Fu));
}

std::string replace_invalid(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    const Utf8Step step = utf8_step(text);
    out += step.kind == Utf8Kind::kValid ? text.substr(0, step.length) : kReplacement;
    text.remove_prefix(step.length);
  }
  return out;
}

}  // namespace quern::text
