#include "attention/mla.h"

#include <gtest/gtest.h>

namespace quern::attention {
namespace {

constexpr MlaLayer kDeepSeek = {
    .heads = 16, .latent_dim = 512, .rope_dim = 64, .nope_dim = 128, .v_head_dim = 128};

bool expanded(const MlaLayer& layer, std::int32_t queries, std::int32_t context) {
  return runs_expanded(layer, {0, queries, context, {}});
}

// A pair costs 1088 multiply-adds absorbed and 320 expanded, which count 400; a row of the prefix
// 131072 to expand, which count 163840: 163840 / 688 = 238.1 queries pay for it.
TEST(RunsExpanded, CountsTheOperationsOfBothWays) {
  EXPECT_FALSE(expanded(kDeepSeek, 1, 1));
  EXPECT_FALSE(expanded(kDeepSeek, 1, 16384));
  EXPECT_TRUE(expanded(kDeepSeek, 512, 512));
  EXPECT_TRUE(expanded(kDeepSeek, 512, 65536));
  EXPECT_FALSE(expanded(kDeepSeek, 238, 1000000));
  EXPECT_TRUE(expanded(kDeepSeek, 239, 1000000));
  // Without a prefix, where new tokens go through the projections either way: a quarter of
  // 131072 for each token against 688 for its pairs.
  EXPECT_FALSE(expanded(kDeepSeek, 94, 94));
  EXPECT_TRUE(expanded(kDeepSeek, 95, 95));
}

TEST(RunsExpanded, NeverWhereOnlyTheAbsorbedWayIsAllowed) {
  MlaLayer layer = kDeepSeek;
  layer.only_absorbed = true;
  EXPECT_FALSE(expanded(layer, 512, 512));
}

}  // namespace
}  // namespace quern::attention
