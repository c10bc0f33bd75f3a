#include "engine/kernel_benchmark_data.h"

#include <cstring>
#include <random>

namespace quern::engine {

std::vector<std::byte> random_weights(DType type, std::int64_t count, unsigned seed) {
  const DTypeInfo& info = dtype_info(type);
  std::vector<std::byte> bytes(static_cast<size_t>(count / info.block_size * info.block_bytes));
  std::mt19937 random(seed);
  for (size_t i = 0; i + 4 <= bytes.size(); i += 4) {
    const auto word = static_cast<std::uint32_t>(random());
    std::memcpy(&bytes[i], &word, 4);
  }
  const auto put = [&](size_t at, std::uint16_t bits) { std::memcpy(&bytes[at], &bits, 2); };
  if (!info.quantised()) {
    for (std::int64_t i = 0; i < count; ++i) {
      const float value = (static_cast<float>(random() & 0xFFFFu) / 65536.0f - 0.5f) / 16;
      const auto at = static_cast<size_t>(i);
      if (type == DType::kF32) std::memcpy(&bytes[4 * at], &value, 4);
      if (type == DType::kF16) put(2 * at, f16_from_f32(value));
      if (type == DType::kBF16) put(2 * at, bf16_from_f32(value));
    }
    return bytes;
  }
  const auto block_bytes = static_cast<size_t>(info.block_bytes);
  const std::uint16_t scale = f16_from_f32(0.002f), minimum = f16_from_f32(-0.015f);
  const bool two =
      type == DType::kQ4_1 || type == DType::kQ5_1 || type == DType::kQ4_K || type == DType::kQ5_K;
  for (size_t at = 0; at < bytes.size(); at += block_bytes) {
    put(at + (type == DType::kQ6_K ? block_bytes - 2 : 0), scale);
    if (two) put(at + 2, minimum);
  }
  return bytes;
}

std::vector<float> random_inputs(std::int64_t count) {
  std::mt19937 random(7);
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

Limit arithmetic_of(kernels::WeightFormat format) {
  if (format == kernels::WeightFormat::kQ4) return Limit::kInt4;
  switch (activation_of(format)) {
    case kernels::ActivationKind::kF32: return Limit::kF32;
    case kernels::ActivationKind::kBF16: return Limit::kBF16;
    default: return Limit::kInt8;
  }
}

}  // namespace quern::engine
