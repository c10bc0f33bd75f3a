#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/dtype.h"
#include "kernels/dispatch.h"
#include "kernels/test_random.h"

namespace quern::kernels {

#if defined(QUERN_HAS_SIMDE)
void attend_bf16_avx512_simde(const AttendArgs&, int rows);
void attend_bf16_amx_emulated(const AttendArgs&, int rows);
#endif

namespace {

constexpr std::int64_t kKey = 48, kValue = 32;

// One block of 64 keys in both slab forms.
struct Block {
  explicit Block(unsigned seed) {
    const auto keys = random_floats(kKeyBlock * kKey, seed);
    const auto values = random_floats(kKeyBlock * kValue, seed + 1);
    for (int t = 0; t < kKeyBlock; ++t) {
      const size_t slab = static_cast<size_t>(t / kSlab), slot = static_cast<size_t>(t % kSlab);
      for (size_t d = 0; d < kKey; ++d) {
        const std::uint16_t bits = bf16_from_f32(keys[t * kKey + d]);
        key_bf16[slab * kSlab * kKey + (d / 2 * kSlab + slot) * 2 + d % 2] = bits;
        key_f32[slab * kSlab * kKey + d * kSlab + slot] = f32_from_bf16(bits);
      }
      for (size_t d = 0; d < kValue; ++d) {
        const std::uint16_t bits = bf16_from_f32(values[t * kValue + d]);
        value_bf16[slab * kSlab * kValue + (slot / 2 * kValue + d) * 2 + slot % 2] = bits;
        value_f32[slab * kSlab * kValue + slot * kValue + d] = f32_from_bf16(bits);
      }
    }
  }
  std::vector<std::uint16_t> key_bf16 = std::vector<std::uint16_t>(kKeyBlock * kKey);
  std::vector<std::uint16_t> value_bf16 = std::vector<std::uint16_t>(kKeyBlock * kValue);
  std::vector<float> key_f32 = std::vector<float>(kKeyBlock * kKey);
  std::vector<float> value_f32 = std::vector<float>(kKeyBlock * kValue);
};

struct Result {
  std::vector<float> maximum, sum, out;
};

Result attend(const Ops& table, const Block& block, bool bf16, const std::vector<float>& q,
              const std::vector<std::int32_t>& first, const std::vector<std::int32_t>& last,
              float cap, const Result* before = nullptr) {
  const int rows = static_cast<int>(first.size());
  Result result;
  if (before) {
    result = *before;
  } else {
    result.maximum.assign(first.size(), -std::numeric_limits<float>::infinity());
    result.sum.assign(first.size(), 0.0f);
    result.out.assign(first.size() * kValue, 0.0f);
  }
  AttendArgs args{.keys = {},
                  .values = {},
                  .next_keys = {},
                  .next_values = {},
                  .slabs = 4,
                  .key_stride = kKey,
                  .value_stride = kValue,
                  .q = q.data(),
                  .first = first.data(),
                  .last = last.data(),
                  .soft_cap = cap,
                  .maximum = result.maximum.data(),
                  .sum = result.sum.data(),
                  .out = result.out.data()};
  for (int g = 0; g < 4; ++g) {
    args.keys[g] = bf16 ? static_cast<const void*>(&block.key_bf16[g * kSlab * kKey])
                        : &block.key_f32[g * kSlab * kKey];
    args.values[g] = bf16 ? static_cast<const void*>(&block.value_bf16[g * kSlab * kValue])
                          : &block.value_f32[g * kSlab * kValue];
  }
  (bf16 ? table.attend_bf16 : table.attend_f32)(args, rows);
  return result;
}

// A table, the most rows of a call, and whether it rounds queries and probabilities to bf16.
struct Table : Ops {
  int rows = kAttendRows;
  bool rounds = isa == Isa::kAvx512;
};

// Every table that can run here, the AVX-512 one also on SIMDe, and AMX, also on emulated tiles.
std::vector<Table> tables() {
  std::vector<Table> all = {{kRefOps, kTileRows}};
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (const Ops* table = ops_for(isa)) all.push_back({*table});
  }
  const auto add = [&](std::string_view name, Attend attend, int rows) {
    Table table{*ops_for(Isa::kAvx2), rows, true};
    table.name = name;
    table.attend_bf16 = attend;
    all.push_back(table);
  };
  if (tile_attention()) add("AMX", tile_attention(), kTileRows);
#if defined(QUERN_HAS_SIMDE)
  if (ops_for(Isa::kAvx2)) {
    add("AVX-512 on SIMDe", attend_bf16_avx512_simde, kAttendRows);
    add("AMX, emulated", attend_bf16_amx_emulated, kTileRows);
  }
#endif
  return all;
}

TEST(Attend, VectorKernelsMatchTheReference) {
  const Block a(1), b(5);
  const auto q = random_floats(kTileRows * kKey, 9, 0.3f);
  for (bool bf16 : {true, false}) {
    for (float cap : {0.0f, 5.0f}) {
      for (int rows = 1; rows <= kTileRows; ++rows) {
        std::vector<std::int32_t> first(rows), last(rows);
        for (int r = 0; r < rows; ++r) {
          first[r] = r == 2 ? 19 : 0;                       // a window
          last[r] = r == 1 ? 0 : std::min(64, 7 * r + 22);  // a causal edge; row 1 sees nothing
        }
        const std::vector<std::int32_t> all(rows, 64), none(rows, 0);
        auto expected = attend(kRefOps, a, bf16, q, none, all, cap);
        expected = attend(kRefOps, b, bf16, q, first, last, cap, &expected);
        for (const Table& table : tables()) {
          if (rows > (bf16 ? table.rows : kAttendRows)) continue;
          auto out = attend(table, a, bf16, q, none, all, cap);
          out = attend(table, b, bf16, q, first, last, cap, &out);
          const float rounding = bf16 && table.rounds ? 0x1p-7f : 0.0f;
          for (int r = 0; r < rows; ++r) {
            const float sum = expected.sum[r];
            EXPECT_NEAR(out.sum[r], sum, 1e-4f + rounding * sum) << table.name;
            for (std::int64_t d = 0; d < kValue; ++d) {
              const size_t i = static_cast<size_t>(r * kValue + d);
              EXPECT_NEAR(out.out[i], expected.out[i], 2e-4f + rounding * sum)
                  << table.name << " " << rows << " " << i;
            }
          }
        }
      }
    }
  }
}

TEST(Attend, ARowsBitsDoNotDependOnTheRowsBesideIt) {
  const Block block(3);
  const auto q = random_floats(6 * kKey, 4, 0.3f);
  const std::vector<std::int32_t> first = {0, 3, 0, 17, 33, 0}, last = {64, 40, 1, 20, 64, 16};
  for (const Table& table : tables()) {
    const auto together = attend(table, block, true, q, first, last, 0);
    for (size_t r = 0; r < 6; ++r) {
      const std::vector<float> own(q.begin() + r * kKey, q.begin() + (r + 1) * kKey);
      const auto alone = attend(table, block, true, own, {first[r]}, {last[r]}, 0);
      EXPECT_EQ(alone.sum[0], together.sum[r]);
      for (size_t d = 0; d < kValue; ++d) EXPECT_EQ(alone.out[d], together.out[r * kValue + d]);
    }
  }
}

TEST(Merge, EqualsOnePassOverBothBlocks) {
  const Block a(1), b(2);
  const auto q = random_floats(kKey, 4, 0.3f);
  for (const Table& table : tables()) {
    auto one = attend(table, a, true, q, {0}, {64}, 0);
    auto left = one;
    const auto right = attend(table, b, true, q, {0}, {50}, 0);
    one = attend(table, b, true, q, {0}, {50}, 0, &one);
    table.merge(left.maximum.data(), left.sum.data(), left.out.data(), right.maximum[0],
                right.sum[0], right.out.data(), kValue);
    const float rounding = table.rounds ? 0x1p-8f * one.sum[0] : 0.0f;
    for (size_t d = 0; d < kValue; ++d) EXPECT_NEAR(left.out[d], one.out[d], 1e-4f + rounding);
    EXPECT_NEAR(left.sum[0], one.sum[0], 1e-4f + rounding);
  }
}

TEST(Attend, ANanKeyShowsInTheResult) {
  Block block(1);
  block.key_bf16[0] = 0x7FC0;
  const auto q = random_floats(kKey, 4, 0.3f);
  for (const Table& table : tables()) {
    EXPECT_TRUE(std::isnan(attend(table, block, true, q, {0}, {64}, 0).sum[0]));
  }
}

}  // namespace
}  // namespace quern::kernels
