// The definition of widening a slab of 8-bit keys or values to bf16, which the attention kernels
// read: one multiplication in f32 and one rounding, so that every instruction set gives its bits.
#include "core/dtype.h"
#include "kernels/ref/ref_ops.h"

namespace quern::kernels {

void widen_keys_i8_ref(const std::byte* x, const float* scales, std::int64_t stride,
                       std::byte* out) {
  auto* words = reinterpret_cast<std::uint16_t*>(out);
  for (std::int64_t i = 0; i < kSlab * stride; ++i) {
    const float value = static_cast<float>(static_cast<std::int8_t>(x[i]));
    words[i] = bf16_from_f32(value * scales[i / 2 % kSlab]);
  }
}

void widen_values_i8_ref(const std::byte* x, const float* scales, std::int64_t stride,
                         std::byte* out) {
  auto* words = reinterpret_cast<std::uint16_t*>(out);
  for (std::int64_t i = 0; i < kSlab * stride; ++i) {
    const float value = static_cast<float>(static_cast<std::int8_t>(x[i]));
    words[i] = bf16_from_f32(value * scales[i / (2 * stride) * 2 + i % 2]);
  }
}

void widen_f8_ref(const std::byte* x, std::int64_t count, std::byte* out) {
  auto* words = reinterpret_cast<std::uint16_t*>(out);
  for (std::int64_t i = 0; i < count; ++i) {
    words[i] = bf16_from_f32(f32_from_f8_e4m3(std::to_integer<std::uint8_t>(x[i])));
  }
}

}  // namespace quern::kernels
