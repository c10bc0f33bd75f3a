// Stored matrices of every type, random but valid, for tests of what packs and multiplies them.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include "core/tensor.h"

namespace quern::kernels {

inline constexpr DType kAllTypes[] = {DType::kF32,  DType::kF16,  DType::kBF16, DType::kQ4_0,
                                      DType::kQ4_1, DType::kQ5_0, DType::kQ5_1, DType::kQ8_0,
                                      DType::kQ3_K, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K};

// A matrix of stored type `type` with random but valid blocks.
struct Stored {
  Stored(DType type, std::int64_t rows, std::int64_t columns, unsigned seed) {
    info = {"w", type, {rows, columns}, rows * row_bytes(type, columns)};
    bytes.resize(static_cast<size_t>(info.bytes));
    std::mt19937 engine(seed);
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(engine());
    const DTypeInfo& shape = dtype_info(type);
    const auto put_half = [&](size_t at, float value) {
      const std::uint16_t bits = f16_from_f32(value);
      std::memcpy(&bytes[at], &bits, 2);
    };
    std::normal_distribution<float> normal(0.0f, 0.05f);
    for (size_t at = 0; at < bytes.size(); at += static_cast<size_t>(shape.block_bytes)) {
      const float value = normal(engine);
      switch (type) {
        case DType::kF32: std::memcpy(&bytes[at], &value, 4); break;
        case DType::kF16: put_half(at, value); break;
        case DType::kBF16: {
          const std::uint16_t bits = bf16_from_f32(value);
          std::memcpy(&bytes[at], &bits, 2);
          break;
        }
        case DType::kQ3_K: put_half(at + 108, value * 0.1f); break;
        case DType::kQ6_K: put_half(at + 208, value * 0.1f); break;
        case DType::kQ4_1:
        case DType::kQ5_1:
        case DType::kQ4_K:
        case DType::kQ5_K: put_half(at + 2, normal(engine)); [[fallthrough]];
        default: put_half(at, value); break;
      }
    }
  }
  TensorView view() const { return {&info, bytes.data()}; }
  TensorInfo info;
  std::vector<std::byte> bytes;
};

}  // namespace quern::kernels
