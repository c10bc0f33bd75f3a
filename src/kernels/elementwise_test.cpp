#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "kernels/dispatch.h"
#include "kernels/test_random.h"

namespace quern::kernels {
namespace {

std::vector<const Ops*> vector_tables() {
  std::vector<const Ops*> all;
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (const Ops* table = ops_for(isa)) all.push_back(table);
  }
  return all;
}

TEST(RmsNorm, MatchesTheReference) {
  for (std::int64_t dim : {1, 7, 8, 64, 576, 577}) {
    const auto x = random_floats(3 * dim, 1), weight = random_floats(dim, 2);
    std::vector<float> expected(x.size()), out(x.size());
    kRefOps.rms_norm(x.data(), weight.data(), 1e-5f, 3, dim, expected.data());
    for (const Ops* table : vector_tables()) {
      table->rms_norm(x.data(), weight.data(), 1e-5f, 3, dim, out.data());
      for (size_t i = 0; i < out.size(); ++i) EXPECT_NEAR(out[i], expected[i], 1e-5f);
    }
  }
}

TEST(SiluMul, MatchesTheReferenceAndDoesNotOverflow) {
  auto gate = random_floats(101, 3, 5.0f);
  gate[0] = 100.0f;
  gate[1] = -100.0f;
  gate[2] = 0.0f;
  const auto up = random_floats(101, 4);
  std::vector<float> expected(101), out(101);
  kRefOps.silu_mul(gate.data(), up.data(), 101, expected.data());
  for (const Ops* table : vector_tables()) {
    table->silu_mul(gate.data(), up.data(), 101, out.data());
    for (int i = 0; i < 101; ++i) {
      EXPECT_NEAR(out[i], expected[i], 2e-6f * (1 + std::fabs(expected[i]))) << gate[i];
    }
    const float before = gate[5];
    gate[5] = NAN;
    table->silu_mul(gate.data(), up.data(), 101, out.data());
    EXPECT_TRUE(std::isnan(out[5]));
    gate[5] = before;
  }
}

TEST(Add, AddsTails) {
  for (const Ops* table : vector_tables()) {
    std::vector<float> x(13, 1.0f), y(13, 2.0f);
    table->add(x.data(), y.data(), 13);
    EXPECT_EQ(x, std::vector<float>(13, 3.0f));
  }
}

TEST(Maximum, IsTheLargestOrNan) {
  for (const std::int64_t count : {1, 7, 8, 9, 16, 101}) {
    auto x = random_floats(count, 5);
    const float expected = *std::max_element(x.begin(), x.end());
    for (const Ops* table : {&kRefOps, ops_for(Isa::kAvx2), ops_for(Isa::kAvx512)}) {
      if (!table) continue;
      EXPECT_EQ(table->maximum(x.data(), count), expected) << table->name << " of " << count;
      for (const std::int64_t place : {std::int64_t{0}, count / 2, count - 1}) {
        auto strange = x;
        strange[static_cast<size_t>(place)] = NAN;
        EXPECT_TRUE(std::isnan(table->maximum(strange.data(), count))) << table->name << place;
      }
    }
  }
}

TEST(Exponentials, MatchTheReference) {
  auto x = random_floats(101, 6, 20.0f);
  x[3] = -INFINITY;
  const float most = kRefOps.maximum(x.data(), 101);
  std::vector<float> expected(101), out(101);
  kRefOps.exponentials(x.data(), most, 1.7f, 101, expected.data());
  EXPECT_EQ(expected[3], 0.0f);
  EXPECT_EQ(*std::max_element(expected.begin(), expected.end()), 1.0f);
  for (const Ops* table : vector_tables()) {
    table->exponentials(x.data(), most, 1.7f, 101, out.data());
    for (int i = 0; i < 101; ++i) EXPECT_NEAR(out[i], expected[i], 1e-6f * expected[i]) << x[i];
  }
}

TEST(Dispatch, TheReferenceAlwaysRuns) {
  EXPECT_EQ(ops_for(Isa::kRef), &kRefOps);
  for (const Ops* table : vector_tables()) EXPECT_NE(table->multiply[0], kRefOps.multiply[0]);
}

}  // namespace
}  // namespace quern::kernels
