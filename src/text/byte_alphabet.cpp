#include "text/byte_alphabet.h"

#include <array>

namespace quern::text {
namespace {

struct Alphabet {
  // Bytes that are printable in Latin-1 stand for themselves, the others for U+0100 onwards in
  // order; all lie below U+0144 and take one or two bytes of UTF-8.
  std::array<std::array<char, 2>, 256> utf8{};
  std::array<std::uint8_t, 256> length{};
  std::array<std::int16_t, 0x144> byte_of{};

  Alphabet() {
    byte_of.fill(-1);
    int next = 0x100;
    for (int byte = 0; byte < 256; ++byte) {
      const bool printable = (byte > 32 && byte < 127) || (byte > 160 && byte != 173);
      const int point = printable ? byte : next++;
      byte_of[static_cast<std::size_t>(point)] = static_cast<std::int16_t>(byte);
      const auto index = static_cast<std::size_t>(byte);
      length[index] = point < 0x80 ? 1 : 2;
      if (point < 0x80) {
        utf8[index] = {static_cast<char>(point), 0};
      } else {
        utf8[index] = {static_cast<char>(0xC0 | point >> 6),
                       static_cast<char>(0x80 | (point & 63))};
      }
    }
  }
};

const Alphabet& alphabet() {
  static const Alphabet table;
  return table;
}

}  // namespace

std::string_view alphabet_of(std::uint8_t byte) {
  const Alphabet& table = alphabet();
  return {table.utf8[byte].data(), table.length[byte]};
}

std::string to_alphabet(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) text += alphabet_of(static_cast<std::uint8_t>(byte));
  return text;
}

std::optional<std::string> from_alphabet(std::string_view text) {
  const Alphabet& table = alphabet();
  std::string bytes;
  bytes.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const auto lead = static_cast<std::uint8_t>(text[i++]);
    std::size_t point = lead;
    if (lead >= 0x80) {
      if (i == text.size() || lead < 0xC2 || lead > 0xC5) return std::nullopt;
      const auto next = static_cast<std::uint8_t>(text[i++]);
      if ((next & 0xC0) != 0x80) return std::nullopt;
      point = static_cast<std::size_t>((lead & 31) << 6 | (next & 63));
    }
    if (point >= table.byte_of.size() || table.byte_of[point] < 0) return std::nullopt;
    bytes += static_cast<char>(table.byte_of[point]);
  }
  return bytes;
}

}  // namespace quern::text
