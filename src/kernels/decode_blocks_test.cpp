#include "kernels/decode_blocks.h"

#include <gtest/gtest.h>

#include <map>

#include "kernels/test_safetensors.h"

namespace quern::kernels {
namespace {

TEST(Decode, MatchesTheReferenceOfEveryBlockType) {
  const GoldenArrays golden(QUERN_TEST_DATA "/quant-blocks/blocks.safetensors");
  const std::map<std::string, DType> types = {
      {"Q4_0", DType::kQ4_0}, {"Q4_1", DType::kQ4_1}, {"Q5_0", DType::kQ5_0},
      {"Q5_1", DType::kQ5_1}, {"Q8_0", DType::kQ8_0}, {"Q3_K", DType::kQ3_K},
      {"Q4_K", DType::kQ4_K}, {"Q5_K", DType::kQ5_K}, {"Q6_K", DType::kQ6_K}};
  for (const auto& [name, type] : types) {
    const auto blocks = golden.bytes(name + ".blocks");
    const auto expected = golden.floats(name + ".values");
    std::vector<float> out(expected.size());
    decode(type, reinterpret_cast<const std::byte*>(blocks.data()),
           static_cast<std::int64_t>(out.size()), out.data());
    for (size_t i = 0; i < out.size(); ++i) {
      EXPECT_NEAR(out[i], expected[i], 1e-6f * (1 + std::fabs(expected[i]))) << name << " " << i;
    }
  }
}

TEST(Decode, ReadsPlainTypes) {
  const std::uint16_t bf16[2] = {bf16_from_f32(1.5f), bf16_from_f32(-3.0f)};
  const std::uint16_t half[2] = {f16_from_f32(0.1f), f16_from_f32(-65504.0f)};
  float out[2];
  decode(DType::kBF16, reinterpret_cast<const std::byte*>(bf16), 2, out);
  EXPECT_EQ(out[0], 1.5f);
  EXPECT_EQ(out[1], -3.0f);
  decode(DType::kF16, reinterpret_cast<const std::byte*>(half), 2, out);
  EXPECT_NEAR(out[0], 0.1f, 1e-4f);
  EXPECT_EQ(out[1], -65504.0f);
}

}  // namespace
}  // namespace quern::kernels
