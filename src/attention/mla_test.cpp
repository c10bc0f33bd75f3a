#include "attention/mla.h"

#include <gtest/gtest.h>

namespace quern::attention {
namespace {

constexpr MlaLayer kDeepSeek = {
    .heads = 16, .latent_dim = 512, .rope_dim = 64, .nope_dim = 128, .v_head_dim = 128};

bool expanded(const MlaLayer& layer, std::int32_t queries, std::int32_t context) {
  return runs_expanded(layer, {0, queries, context, {}});
}

// A pair costs 1088 multiply-adds absorbed and 320 expanded, a row of the prefix 131072 to expand:
// 131072 / 768 = 170.67 queries pay for it, each new token through the projections either way.
TEST(RunsExpanded, CountsTheOperationsOfBothWays) {
  EXPECT_FALSE(expanded(kDeepSeek, 1, 2));
  EXPECT_FALSE(expanded(kDeepSeek, 1, 16384));
  EXPECT_TRUE(expanded(kDeepSeek, 2, 2));  // nothing is expanded that was not new
  EXPECT_TRUE(expanded(kDeepSeek, 512, 512));
  EXPECT_TRUE(expanded(kDeepSeek, 512, 65536));
  EXPECT_FALSE(expanded(kDeepSeek, 170, 1000000));
  EXPECT_TRUE(expanded(kDeepSeek, 171, 1000000));
  // With a short prefix the new tokens' own pairs count more.
  EXPECT_FALSE(expanded(kDeepSeek, 7, 8));
  EXPECT_TRUE(expanded(kDeepSeek, 18, 19));
}

TEST(RunsExpanded, NeverWhereOnlyTheAbsorbedWayIsAllowed) {
  MlaLayer layer = kDeepSeek;
  layer.only_absorbed = true;
  EXPECT_FALSE(expanded(layer, 512, 512));
}

}  // namespace
}  // namespace quern::attention
