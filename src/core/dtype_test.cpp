#include "core/dtype.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace quern {
namespace {

TEST(DType, HalfSurvivesARoundTripForEveryValue) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float value = f32_from_f16(half);
    if (std::isnan(value)) {
      EXPECT_TRUE(std::isnan(f32_from_f16(f16_from_f32(value))));
    } else {
      EXPECT_EQ(f16_from_f32(value), half);
    }
  }
}

TEST(DType, HalfRoundsToNearestEven) {
  EXPECT_EQ(f16_from_f32(1.0f + 0x1p-11f), 0x3C00);             // halfway: to even
  EXPECT_EQ(f16_from_f32(1.0f + 3 * 0x1p-11f), 0x3C02);         // halfway: to even
  EXPECT_EQ(f16_from_f32(1.0f + 0x1p-11f + 0x1p-20f), 0x3C01);  // above half
  EXPECT_EQ(f16_from_f32(65519.0f), 0x7BFF);
  EXPECT_EQ(f16_from_f32(65520.0f), 0x7C00);
  EXPECT_EQ(f16_from_f32(-0x1p-25f), 0x8000);  // half of the smallest: to even, which is zero
}

TEST(DType, Bf16RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(bf16_from_f32(1.0f + 0x1p-8f), 0x3F80);
  EXPECT_EQ(bf16_from_f32(1.0f + 3 * 0x1p-8f), 0x3F82);
  EXPECT_TRUE(std::isnan(f32_from_bf16(bf16_from_f32(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isinf(f32_from_bf16(bf16_from_f32(std::numeric_limits<float>::infinity()))));
}

TEST(DType, Fp8SurvivesARoundTripForEveryValue) {
  for (int bits = 0; bits < 256; ++bits) {
    const auto byte = static_cast<std::uint8_t>(bits);
    const float value = f32_from_f8_e4m3(byte);
    if ((bits & 0x7F) == 0x7F) {
      EXPECT_TRUE(std::isnan(value));
      EXPECT_EQ(f8_e4m3_from_f32(value) & 0x7F, 0x7F);
    } else {
      EXPECT_EQ(f8_e4m3_from_f32(value), byte) << value;
    }
  }
  EXPECT_EQ(f32_from_f8_e4m3(0x7E), 448.0f);
  EXPECT_EQ(f32_from_f8_e4m3(0x38), 1.0f);
  EXPECT_EQ(f32_from_f8_e4m3(0x81), -0x1p-9f);
}

TEST(DType, Fp8RoundsToNearestEvenAndStaysFinite) {
  EXPECT_EQ(f8_e4m3_from_f32(1.0625f), 0x38);   // halfway between 1 and 1.125: to even
  EXPECT_EQ(f8_e4m3_from_f32(1.1875f), 0x3A);   // halfway: to even
  EXPECT_EQ(f8_e4m3_from_f32(0x1p-10f), 0x00);  // half of the smallest: to even
  EXPECT_EQ(f8_e4m3_from_f32(3 * 0x1p-10f), 0x02);
  EXPECT_EQ(f8_e4m3_from_f32(7.9f * 0x1p-9f), 0x08);  // up into the normal ones
  EXPECT_EQ(f8_e4m3_from_f32(1e9f), 0x7E);
  EXPECT_EQ(f8_e4m3_from_f32(-std::numeric_limits<float>::infinity()), 0xFE);
}

TEST(DType, RowBytesCountsBlocks) {
  EXPECT_EQ(row_bytes(DType::kQ4_1, 576), 576 / 32 * 20);
  EXPECT_EQ(row_bytes(DType::kQ6_K, 512), 420);
  EXPECT_EQ(row_bytes(DType::kBF16, 3), 6);
}

}  // namespace
}  // namespace quern
