// Weights of fp8_e4m3 with scales for blocks of any size: decoding is exact, packing rounds once.
#include <gtest/gtest.h>

#include <random>
#include <vector>

#include "kernels/decode_blocks.h"
#include "kernels/packed_matrix.h"

namespace quern::kernels {
namespace {

Arena arena;  // of all packed matrices

// A matrix whose edges cut its last blocks, and every finite value among its bytes.
struct Fp8Matrix {
  Fp8Matrix(std::int64_t rows, std::int64_t columns, std::int64_t block_rows,
            std::int64_t block_columns, DType scale_type)
      : info{"w", DType::kF8E4M3, {rows, columns}, rows * columns},
        blocks((columns + block_columns - 1) / block_columns) {
    std::mt19937 engine(7);
    for (std::int64_t i = 0; i < rows * columns; ++i) {
      const auto bits = static_cast<std::uint8_t>(i);
      bytes.push_back(static_cast<std::byte>((bits & 0x7F) == 0x7F ? 0 : bits));
    }
    std::normal_distribution<float> normal(0.0f, 0.01f);
    for (std::int64_t i = 0; i < (rows + block_rows - 1) / block_rows * blocks; ++i) {
      const float value = f32_from_bf16(bf16_from_f32(normal(engine)));
      scales.push_back(scale_type == DType::kF32 ? value + 1e-5f : value);
      halves.push_back(bf16_from_f32(value));
    }
    stored = {scale_type == DType::kF32 ? reinterpret_cast<const std::byte*>(scales.data())
                                        : reinterpret_cast<const std::byte*>(halves.data()),
              scale_type, block_rows, block_columns};
  }
  TensorView view() const { return {&info, bytes.data(), stored}; }
  float expected(std::int64_t row, std::int64_t column) const {
    const auto byte =
        static_cast<std::uint8_t>(bytes[static_cast<size_t>(row * info.shape[1] + column)]);
    const std::int64_t block = row / stored.block_rows * blocks + column / stored.block_columns;
    return f32_from_f8_e4m3(byte) * scales[static_cast<size_t>(block)];
  }

  TensorInfo info;
  std::int64_t blocks;
  std::vector<std::byte> bytes;
  std::vector<float> scales;
  std::vector<std::uint16_t> halves;
  BlockScales stored;
};

const Fp8Matrix kMatrices[] = {{256, 256, 128, 128, DType::kF32}, {150, 200, 128, 128, DType::kF32},
                               {37, 129, 128, 128, DType::kBF16}, {129, 5, 128, 128, DType::kF32},
                               {50, 70, 16, 32, DType::kBF16},    {1, 1, 128, 128, DType::kF32}};

TEST(Fp8, DecodesExactly) {
  for (const Fp8Matrix& matrix : kMatrices) {
    std::vector<float> row(static_cast<size_t>(matrix.info.shape[1]));
    for (std::int64_t r = 0; r < matrix.info.shape[0]; ++r) {
      decode_row(matrix.view(), r, row.data());
      for (std::int64_t c = 0; c < std::ssize(row); ++c) {
        ASSERT_EQ(row[static_cast<size_t>(c)], matrix.expected(r, c)) << r << " " << c;
      }
    }
  }
}

TEST(Fp8, PacksToBf16OrF32) {
  ThreadPool pool(2);
  for (const Fp8Matrix& matrix : kMatrices) {
    const PackedMatrix kept = pack(matrix.view(), PackMode::kKeep, pool, arena);
    const PackedMatrix wide = pack(matrix.view(), PackMode::kF32, pool, arena);
    EXPECT_EQ(kept.format, WeightFormat::kBF16);
    EXPECT_EQ(wide.format, WeightFormat::kF32);
    std::vector<float> row(static_cast<size_t>(matrix.info.shape[1]));
    for (std::int64_t r = 0; r < matrix.info.shape[0]; ++r) {
      unpack_row(kept, r, row.data());
      for (std::int64_t c = 0; c < std::ssize(row); ++c) {
        ASSERT_EQ(row[static_cast<size_t>(c)], f32_from_bf16(bf16_from_f32(matrix.expected(r, c))));
      }
      unpack_row(wide, r, row.data());
      for (std::int64_t c = 0; c < std::ssize(row); ++c) {
        ASSERT_EQ(row[static_cast<size_t>(c)], matrix.expected(r, c));
      }
    }
  }
}

}  // namespace
}  // namespace quern::kernels
