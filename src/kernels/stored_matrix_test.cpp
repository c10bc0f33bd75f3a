// How stored types become packed ones, and matrices that stay as they are stored.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "kernels/decode_blocks.h"
#include "kernels/matmul.h"
#include "kernels/test_random.h"
#include "kernels/test_stored.h"

namespace quern::kernels {
namespace {

Arena arena;  // of all packed matrices

constexpr PackMode kModes[] = {PackMode::kKeep, PackMode::kF32, PackMode::kBF16};

std::vector<float> product(ThreadPool& pool, const PackedMatrix& weights,
                           const std::vector<float>& x, std::int64_t rows) {
  Matmul matmul(pool, rows, weights.k);
  std::vector<float> out(static_cast<size_t>(rows * weights.outputs), -1e30f);
  const MatmulTarget target[] = {{&weights, out.data()}};
  matmul(x.data(), rows, target);
  return out;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Both ways of holding `matrix` are one in products of any number of rows and in single rows.
void expect_same_bits(const TensorView& matrix, PackMode mode, const std::string& what) {
  ThreadPool pool(2);
  const PackedMatrix packed = pack(matrix, mode, pool, arena);
  const PackedMatrix stored = leave_stored(matrix, mode, pool);
  EXPECT_EQ(stored.format, packed.format) << what;
  EXPECT_EQ(stored.data.size(), 0) << what;
  EXPECT_EQ(stored.bytes(), matrix.info->bytes) << what;
  EXPECT_EQ(packed.bytes(), packed.panels() * packed.panel_bytes) << what;
  const std::int64_t k = matrix.columns();
  const auto x = random_floats(131 * k, 5);
  for (const std::int64_t rows : {1, 2, 3, 7, 8, 9, 131}) {
    EXPECT_TRUE(same_bits(product(pool, stored, x, rows), product(pool, packed, x, rows)))
        << what << ", " << rows << " rows";
  }
  std::vector<float> left(static_cast<size_t>(k)), right(static_cast<size_t>(k));
  for (std::int64_t output = 0; output < matrix.rows(); ++output) {
    unpack_row(stored, output, left.data());
    unpack_row(packed, output, right.data());
    EXPECT_TRUE(same_bits(left, right)) << what << ", row " << output;
  }
}

TEST(LeaveStored, GivesTheBitsOfPackedMatrices) {
  for (const DType type : kAllTypes) {
    const DTypeInfo& info = dtype_info(type);
    // Pieces of a row and what is left of one; an odd k where the type allows it.
    const std::int64_t k = info.block_size == 256 ? 768 : info.quantised() ? 288 : 259;
    for (const std::int64_t outputs : {1, 16, 83}) {
      const Stored stored(type, outputs, k, 17);
      for (const PackMode mode : kModes) {
        expect_same_bits(stored.view(), mode,
                         std::string(name_of(type)) + " x " + std::to_string(outputs));
      }
    }
  }
}

TEST(LeaveStored, AppliesScalesThatStandApart) {
  constexpr std::int64_t kOutputs = 40, kColumns = 300;
  std::vector<std::byte> values(kOutputs * kColumns);
  std::mt19937 random(3);
  for (std::byte& value : values) value = static_cast<std::byte>(random() % 0x7F);
  const auto scales = random_floats(3 * 3, 4);  // blocks of 16 × 128, the last ones cut
  const TensorInfo info = {"w", DType::kF8E4M3, {kOutputs, kColumns}, kOutputs * kColumns};
  const TensorView view = {&info,
                           values.data(),
                           {.data = reinterpret_cast<const std::byte*>(scales.data()),
                            .dtype = DType::kF32,
                            .block_rows = 16,
                            .block_columns = 128}};
  for (const PackMode mode : kModes) expect_same_bits(view, mode, "F8_E4M3");
  std::vector<float> row(kColumns);
  decode_row(view, 17, row.data());
  EXPECT_EQ(row[129], f32_from_f8_e4m3(static_cast<std::uint8_t>(values[17 * kColumns + 129])) *
                          scales[1 * 3 + 1]);
}

// Sets the half that scales every block of a stored matrix.
void set_scales(Stored& stored, float scale) {
  const DTypeInfo& info = dtype_info(stored.info.dtype);
  const auto block = static_cast<size_t>(info.block_bytes);
  const bool last = stored.info.dtype == DType::kQ6_K || stored.info.dtype == DType::kQ3_K;
  const std::uint16_t bits = f16_from_f32(scale);
  for (size_t at = 0; at < stored.bytes.size(); at += block) {
    std::memcpy(&stored.bytes[at + (last ? block - 2 : 0)], &bits, 2);
  }
}

TEST(Pack, KeepsFewBitsWhereHalvesHoldTheScales) {
  ThreadPool pool(2);
  const auto format_with = [&](DType type, float scale) {
    Stored stored(type, 16, 256, 4);
    set_scales(stored, scale);
    const PackedMatrix packed = pack(stored.view(), PackMode::kKeep, pool, arena);
    // Whatever the format, the values are those stored.
    std::vector<float> expected(256), out(256);
    for (std::int64_t row = 0; row < 16; ++row) {
      decode_row(stored.view(), row, expected.data());
      unpack_row(packed, row, out.data());
      float largest = 0;
      for (const float value : expected) largest = std::max(largest, std::fabs(value));
      for (size_t k = 0; k < 256; ++k) {
        EXPECT_NEAR(out[k], expected[k], 0x1p-10f * largest) << name_of(type) << ' ' << scale;
      }
    }
    return packed.format;
  };
  for (const DType type : {DType::kQ4_K, DType::kQ5_K}) {
    const WeightFormat few = type == DType::kQ4_K ? WeightFormat::kQ4 : WeightFormat::kQ5;
    EXPECT_EQ(format_with(type, 0.01f), few);
    EXPECT_EQ(format_with(type, 1e-7f), WeightFormat::kQ8Sub);
    EXPECT_EQ(format_with(type, 60000.0f), WeightFormat::kQ8Sub);
  }
  for (const DType type : {DType::kQ3_K, DType::kQ6_K}) {
    EXPECT_EQ(format_with(type, 0.001f), WeightFormat::kQ6);
    EXPECT_EQ(format_with(type, 1e-7f), WeightFormat::kQ8Sub);
    EXPECT_EQ(format_with(type, 60000.0f), WeightFormat::kQ8Sub);
  }
  EXPECT_EQ(format_with(DType::kQ4_0, 8000.0f), WeightFormat::kQ4);
  EXPECT_EQ(format_with(DType::kQ4_0, 8200.0f), WeightFormat::kQ8);
  EXPECT_EQ(format_with(DType::kQ5_0, 4000.0f), WeightFormat::kQ5);
  EXPECT_EQ(format_with(DType::kQ5_0, 4100.0f), WeightFormat::kQ8);
  EXPECT_EQ(format_with(DType::kQ5_1, 60000.0f), WeightFormat::kQ5);
}

// A single row among many decides, whichever thread looks at it.
TEST(Pack, LooksAtTheScalesOfAllRows) {
  ThreadPool pool(3);
  const std::uint16_t big = f16_from_f32(60000.0f);
  for (const std::int64_t row : {0, 63, 126}) {
    Stored stored(DType::kQ4_0, 127, 64, 4);
    std::memcpy(&stored.bytes[static_cast<size_t>(row * 36 + 18)], &big, 2);
    EXPECT_EQ(leave_stored(stored.view(), PackMode::kKeep, pool).format, WeightFormat::kQ8) << row;
  }
}

}  // namespace
}  // namespace quern::kernels
