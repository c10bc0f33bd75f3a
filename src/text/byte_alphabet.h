// The alphabet of byte-level BPE vocabularies: each of the 256 bytes is written as one printable
// character (GPT-2's table), so that a vocabulary is plain text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace quern::text {

// The character that stands for a byte, as UTF-8.
std::string_view alphabet_of(std::uint8_t byte);
// Bytes in the alphabet, one character a byte. Cost: O(n).
std::string to_alphabet(std::string_view bytes);
// The bytes that `text` stands for; nullopt where a character is not of the alphabet.
std::optional<std::string> from_alphabet(std::string_view text);

}  // namespace quern::text
