#include "core/dtype.h"

namespace quern {

const DTypeInfo& dtype_info(DType type) {
  static constexpr DTypeInfo kInfos[] = {
      {"F32", 1, 4},      {"F16", 1, 2},      {"BF16", 1, 2},     {"Q4_0", 32, 18},
      {"Q4_1", 32, 20},   {"Q5_0", 32, 22},   {"Q5_1", 32, 24},   {"Q8_0", 32, 34},
      {"Q3_K", 256, 110}, {"Q4_K", 256, 144}, {"Q5_K", 256, 176}, {"Q6_K", 256, 210},
      {"F8_E4M3", 1, 1},  {"I8", 1, 1},
  };
  return kInfos[static_cast<int>(type)];
}

std::optional<DType> parse_float_dtype(std::string_view word) {
  if (word == "float32" || word == "float" || word == "fp32" || word == "f32") return DType::kF32;
  if (word == "bfloat16" || word == "bf16") return DType::kBF16;
  if (word == "float16" || word == "half" || word == "fp16" || word == "f16") return DType::kF16;
  return std::nullopt;
}

std::uint16_t f16_from_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint16_t>(bits >> 16 & 0x8000u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7E00u;
  if (magnitude >= 0x477FF000u) return sign | 0x7C00u;  // ≥ 65520 rounds to infinity
  if (magnitude < 0x38800000u) {                        // below 2^-14: subnormal, in units of 2^-24
    const float units = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p24f);
    return sign | static_cast<std::uint16_t>(units);
  }
  const std::uint32_t rounded = magnitude + 0xFFFu + (magnitude >> 13 & 1u);
  return sign | static_cast<std::uint16_t>((rounded - 0x38000000u) >> 13);
}

std::uint8_t f8_e4m3_from_f32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  const auto sign = static_cast<std::uint8_t>(bits >> 24 & 0x80u);
  const std::uint32_t magnitude = bits & 0x7FFFFFFFu;
  if (magnitude > 0x7F800000u) return sign | 0x7Fu;
  if (magnitude >= 0x43E00000u) return sign | 0x7Eu;  // 448
  if (magnitude < 0x3C800000u) {                      // below 2^-6: subnormal, in units of 2^-9
    const float units = std::nearbyint(std::bit_cast<float>(magnitude) * 0x1p9f);
    return static_cast<std::uint8_t>(sign | static_cast<std::uint8_t>(units));
  }
  const std::uint32_t rounded = magnitude + 0x7FFFFu + (magnitude >> 20 & 1u);
  return static_cast<std::uint8_t>(sign | (rounded - 0x3C000000u) >> 20);
}

}  // namespace quern
