// Widening of 8-bit KV slabs: the reference against its definition, every table against the
// reference, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "core/dtype.h"
#include "kernels/dispatch.h"

namespace quern::kernels {

#if defined(QUERN_HAS_SIMDE)
void widen_keys_i8_avx512_simde(const std::byte*, const float*, std::int64_t, std::byte*);
void widen_values_i8_avx512_simde(const std::byte*, const float*, std::int64_t, std::byte*);
#endif

namespace {

std::vector<Ops> tables() {
  std::vector<Ops> all;
  for (Isa isa : {Isa::kRef, Isa::kAvx2, Isa::kAvx512}) {
    if (const Ops* table = ops_for(isa)) all.push_back(*table);
  }
#if defined(QUERN_HAS_SIMDE)
  if (const Ops* avx2 = ops_for(Isa::kAvx2)) {
    Ops table = *avx2;
    table.name = "AVX-512 on SIMDe";
    table.widen_keys_i8 = widen_keys_i8_avx512_simde;
    table.widen_values_i8 = widen_values_i8_avx512_simde;
    all.push_back(table);
  }
#endif
  return all;
}

std::vector<std::byte> bytes_of(std::int64_t count) {
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<std::byte>(i * 37 + i / 256);
  return bytes;
}

TEST(Widen, Int8TakesTheScaleOfItsToken) {
  std::vector<float> scales;
  for (int t = 0; t < kSlab; ++t)
    scales.push_back(std::ldexp(1.0f + 0.01f * static_cast<float>(t), t * 12 - 100));
  scales[3] = 0;
  scales[7] = std::nanf("");
  for (const std::int64_t stride : {16, 64, 80, 256}) {
    const auto x = bytes_of(kSlab * stride);
    const auto word = [&](std::int64_t index, int token) {
      const auto stored = static_cast<std::int8_t>(x[static_cast<std::size_t>(index)]);
      return bf16_from_f32(static_cast<float>(stored) * scales[static_cast<std::size_t>(token)]);
    };
    for (const Ops& table : tables()) {
      std::vector<std::uint16_t> keys(x.size()), values(x.size());
      table.widen_keys_i8(x.data(), scales.data(), stride,
                          reinterpret_cast<std::byte*>(keys.data()));
      table.widen_values_i8(x.data(), scales.data(), stride,
                            reinterpret_cast<std::byte*>(values.data()));
      for (std::int64_t d = 0; d < stride; ++d) {
        for (int token = 0; token < kSlab; ++token) {
          const std::int64_t key = (d / 2 * kSlab + token) * 2 + d % 2;
          const std::int64_t value = (token / 2 * stride + d) * 2 + token % 2;
          for (const auto& [found, index] : {std::pair(&keys, key), std::pair(&values, value)}) {
            const std::uint16_t got = (*found)[static_cast<std::size_t>(index)];
            if (token == 7) {
              EXPECT_TRUE(std::isnan(f32_from_bf16(got))) << table.name;
            } else {
              ASSERT_EQ(got, word(index, token)) << table.name << " " << stride << " " << token;
            }
          }
        }
      }
    }
  }
}

TEST(Widen, EveryFp8ValueIsExact) {
  const auto x = bytes_of(256 * 3);
  for (const Ops& table : tables()) {
    std::vector<std::uint16_t> words(x.size());
    table.widen_f8(x.data(), static_cast<std::int64_t>(x.size()),
                   reinterpret_cast<std::byte*>(words.data()));
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float expected = f32_from_f8_e4m3(std::to_integer<std::uint8_t>(x[i]));
      const float got = f32_from_bf16(words[i]);
      if (std::isnan(expected)) {
        EXPECT_TRUE(std::isnan(got)) << table.name;
      } else {
        ASSERT_EQ(0, std::memcmp(&got, &expected, 4)) << table.name << " " << i;
      }
    }
  }
}

}  // namespace
}  // namespace quern::kernels
