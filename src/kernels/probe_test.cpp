#include "kernels/probe.h"

#include <gtest/gtest.h>

#include "kernels/ops.h"

namespace quern::kernels {
namespace {

TEST(Probe, EveryLoopOfThisProcessorRuns) {
  ThreadPool pool(2);
  for (const auto loops : {probe_loops_avx2(), probe_loops_avx512()}) {
    for (const ProbeLoop& loop : loops) {
      const double rate = measure_loop(pool, loop, 1000, 3);
      EXPECT_GT(rate, 1e8) << loop.instructions;  // a real processor's, not that of a deleted loop
      EXPECT_LT(rate, 1e13) << loop.instructions;
    }
  }
}

TEST(Probe, HasTheLoopsThatTheKernelsNeed) {
  const auto has = [](std::span<const ProbeLoop> loops, ProbeLoop::Rate rate) {
    for (const ProbeLoop& loop : loops) {
      if (loop.rate == rate) return true;
    }
    return false;
  };
  EXPECT_EQ(has(probe_loops_avx2(), ProbeLoop::Rate::kInt4), ops_for(Isa::kAvx2) != nullptr);
  EXPECT_EQ(has(probe_loops_avx512(), ProbeLoop::Rate::kBF16), ops_for(Isa::kAvx512) != nullptr);
}

TEST(Probe, PeaksBelongTogether) {
  ThreadPool pool(1);
  const Peaks peaks = measure_peaks(pool);
  EXPECT_GT(peaks.memory, 1e8);
  EXPECT_GT(peaks.cache, peaks.memory);
  EXPECT_GE(peaks.int4, peaks.int8);
  EXPECT_EQ(peaks.f32 > 0, ops_for(Isa::kAvx2) != nullptr);
  EXPECT_EQ(peaks.bf16 > 0, ops_for(Isa::kAvx512) != nullptr);
}

}  // namespace
}  // namespace quern::kernels
