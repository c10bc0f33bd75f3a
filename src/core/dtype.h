// Element types of weights, activations and caches, with the conversions that the portable code
// needs. Quantised types are GGUF's: blocks of `block_size` values in `block_bytes` bytes. kF8E4M3
// is that of caches and of checkpoints that keep their scales apart, kI8 that of caches alone.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string_view>

namespace quern {

enum class DType : std::uint8_t {
  kF32,
  kF16,
  kBF16,
  kQ4_0,
  kQ4_1,
  kQ5_0,
  kQ5_1,
  kQ8_0,
  kQ3_K,
  kQ4_K,
  kQ5_K,
  kQ6_K,
  kF8E4M3,
  kI8,
};

struct DTypeInfo {
  std::string_view name;  // GGUF's spelling: F32, BF16, Q4_K
  int block_size;         // values in a block along a row; 1 for plain types
  int block_bytes;
  bool quantised() const { return block_size > 1; }
};

const DTypeInfo& dtype_info(DType type);
inline std::string_view name_of(DType type) { return dtype_info(type).name; }

// Bytes of a row of `columns` values. Requires: columns a multiple of the block size.
inline std::int64_t row_bytes(DType type, std::int64_t columns) {
  const DTypeInfo& info = dtype_info(type);
  return columns / info.block_size * info.block_bytes;
}

// config.json's torch_dtype / SGLang's --dtype words: float32, bfloat16, float16 and short forms.
std::optional<DType> parse_float_dtype(std::string_view word);

inline float f32_from_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Rounds to nearest even; a NaN stays a NaN.
inline std::uint16_t bf16_from_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>(bits >> 16 | 0x40u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16);
}

inline float f32_from_f16(std::uint16_t half) {
  const std::uint32_t sign = (half & 0x8000u) << 16, exponent = half >> 10 & 31u;
  const std::uint32_t mantissa = half & 0x3FFu;
  if (exponent == 0) {  // zero or subnormal: mantissa × 2^-24
    const float value = std::ldexp(static_cast<float>(mantissa), -24);
    return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) | sign);
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7F800000u | mantissa << 13);
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

// Rounds to nearest even; overflow gives infinity.
std::uint16_t f16_from_f32(float value);

// fp8_e4m3 without infinities: sign, 4 bits of exponent, 3 of fraction; 0x7F and 0xFF are NaN.
inline float f32_from_f8_e4m3(std::uint8_t bits) {
  const std::uint32_t sign = (bits & 0x80u) << 24, magnitude = bits & 0x7Fu;
  if (magnitude == 0x7Fu) return std::bit_cast<float>(sign | 0x7FC00000u);
  // As if it were a float of the same fields; the power of two sets the exponent right, for
  // subnormals too.
  return std::bit_cast<float>(sign | magnitude << 20) * 0x1p120f;
}
// To nearest, ties to even; beyond ±448 the largest; a NaN stays one.
std::uint8_t f8_e4m3_from_f32(float value);

}  // namespace quern
