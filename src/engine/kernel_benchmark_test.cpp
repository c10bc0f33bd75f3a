#include "engine/kernel_benchmark.h"

#include <gtest/gtest.h>

#include <chrono>
#include <thread>

namespace quern::engine {
namespace {

// A kernel that takes two milliseconds.
KernelCase two_milliseconds(double bytes, double operations, Limit arithmetic) {
  return {.kernel = "sleep",
          .shape = "2 ms",
          .bytes = bytes,
          .operations = operations,
          .arithmetic = arithmetic,
          .run = [] { std::this_thread::sleep_for(std::chrono::milliseconds(2)); }};
}

TEST(KernelBenchmark, TheLongerOfMemoryAndArithmeticIsTheBound) {
  ThreadPool pool(1);
  const kernels::Peaks peaks{.memory = 1e9, .f32 = 0, .int8 = 1e9, .int4 = 2e9};
  // 1 ms of memory, 1/2 ms of 4-bit work: half of the memory's rate at best.
  const KernelResult memory =
      measure_case(pool, peaks, 3, two_milliseconds(1e6, 1e6, Limit::kInt4));
  EXPECT_EQ(memory.bound, Limit::kMemory);
  EXPECT_LE(memory.share, 0.5);
  EXPECT_NEAR(memory.share, 1e6 / 1e9 / memory.seconds, 1e-9);
  const KernelResult compute =
      measure_case(pool, peaks, 3, two_milliseconds(1e5, 1e6, Limit::kInt8));
  EXPECT_EQ(compute.bound, Limit::kInt8);
  EXPECT_NEAR(compute.share, 1e6 / 1e9 / compute.seconds, 1e-9);
  EXPECT_GE(compute.calm_repeats, 3);
}

TEST(KernelBenchmark, WithoutBf16InstructionsTheLimitIsF32) {
  ThreadPool pool(1);
  const kernels::Peaks peaks{.memory = 1e12, .f32 = 1e-3};  // never calm: the rate is far off
  const KernelResult result = measure_case(pool, peaks, 3, two_milliseconds(0, 1, Limit::kBF16));
  EXPECT_EQ(result.bound, Limit::kBF16);
  EXPECT_NEAR(result.share, 1e3 / result.seconds, 1e-3 / result.seconds);
}

TEST(KernelBenchmark, AKernelWithoutTrafficHasNoShare) {
  ThreadPool pool(1);
  const KernelResult result =
      measure_case(pool, {.memory = 1e9}, 3, two_milliseconds(0, 0, Limit::kNone));
  EXPECT_EQ(result.bound, Limit::kNone);
  EXPECT_EQ(result.share, 0);
}

TEST(KernelBenchmark, OnlyTheKernelsAskedForRun) {
  ThreadPool pool(2);
  std::vector<std::string> names;
  measure_kernels(pool, {.memory = 1e9, .cache = 1e9}, {.repeats = 3, .only = "rope"},
                  [&](const KernelResult& result) { names.push_back(result.kernel); });
  EXPECT_EQ(names, std::vector<std::string>{"rope"});
}

// A token reads its 8 experts of 64; many tokens read them all, each once.
TEST(KernelBenchmark, ExpertsCountTheBytesOfThoseThatAreRouted) {
  ThreadPool pool(2);
  std::vector<double> bytes, operations;
  expert_cases(pool, "experts Q8_0", [&](const KernelCase& what) {
    bytes.push_back(what.bytes);
    operations.push_back(what.operations);
    const KernelResult result = measure_case(pool, {.memory = 1e9, .int8 = 1e12}, 1, what);
    EXPECT_GT(result.share, 0) << what.shape;
  });
  ASSERT_EQ(bytes.size(), 4u);
  const double expert = 3.0 * 2048 * 768 / 32 * 34;
  EXPECT_EQ(bytes[0], 8 * expert);
  EXPECT_GT(bytes[1], 20 * expert);
  EXPECT_LT(bytes[1], 60 * expert);
  EXPECT_LE(bytes[2], 64 * expert);
  EXPECT_EQ(bytes[3], 64 * expert);
  EXPECT_EQ(operations[3], 512 * operations[0]);
}

TEST(KernelBenchmark, AttentionRunsOnEveryShape) {
  ThreadPool pool(2);
  int shapes = 0;
  measure_kernels(pool, {.memory = 1e9, .bf16 = 1e9},
                  {.repeats = 1, .only = "prefill attention bf16"},
                  [&](const KernelResult& result) {
                    ++shapes;
                    EXPECT_GT(result.share, 0) << result.shape;
                  });
  EXPECT_EQ(shapes, 3);
}

}  // namespace
}  // namespace quern::engine
