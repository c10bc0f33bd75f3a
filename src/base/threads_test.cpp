#include "base/threads.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <chrono>
#include <numeric>

#include "base/cpu_features.h"

namespace quern {
namespace {

TEST(ThreadPool, EveryItemIsDoneOnce) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    for (std::int64_t count : {0, 1, 7, 64, 1000}) {
      for (std::int64_t grain : {1, 3, 64, 5000}) {
        std::vector<int> runs(static_cast<size_t>(count));
        pool.for_each(count, grain, [&](std::int64_t begin, std::int64_t end, int thread) {
          EXPECT_LE(end - begin, threads > 1 ? grain : count);
          EXPECT_LT(thread, threads);
          for (std::int64_t i = begin; i < end; ++i) ++runs[static_cast<size_t>(i)];
        });
        EXPECT_EQ(runs, std::vector<int>(static_cast<size_t>(count), 1)) << threads;
      }
    }
  }
}

// A worker that is late for one loop must not run its chunks as the next one's.
TEST(ThreadPool, LoopsOfManySizesFollowEachOther) {
  ThreadPool pool(3);
  std::int64_t total = 0, expected = 0;
  for (int loop = 1; loop < 20000; ++loop) {
    const std::int64_t count = loop % 37 + 2;
    std::vector<std::int64_t> done(static_cast<size_t>(count));
    pool.for_each(count, 1, [&](std::int64_t begin, std::int64_t, int) {
      done[static_cast<size_t>(begin)] += loop;
    });
    total += std::accumulate(done.begin(), done.end(), std::int64_t{0});
    expected += count * loop;
  }
  EXPECT_EQ(total, expected);
}

TEST(ThreadPool, ALoopSeesWhatTheOneBeforeWrote) {
  ThreadPool pool(4);
  std::vector<int> first(64), second(64);
  for (int loop = 1; loop < 500; ++loop) {
    pool.for_each(64, 4, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) first[static_cast<size_t>(i)] = loop;
    });
    pool.for_each(64, 4, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t i = begin; i < end; ++i) {
        second[static_cast<size_t>(i)] = first[static_cast<size_t>(63 - i)];
      }
    });
    EXPECT_EQ(second, std::vector<int>(64, loop));
  }
}

// Work goes on after all workers went to sleep.
TEST(ThreadPool, SleepingWorkersWake) {
  ThreadPool pool(2);
  for (int loop = 0; loop < 5; ++loop) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> other{0};
    pool.for_each(64, 1, [&](std::int64_t, std::int64_t, int thread) {
      // Long enough for the worker to come; the caller alone would end this loop too.
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (thread == 1) other = 1;
    });
    EXPECT_EQ(other, 1);
  }
}

// A pool of as many threads as there are processors spreads them, one to each.
TEST(ThreadPool, WorkersOfAFullPoolKeepTheirProcessors) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  ASSERT_EQ(sched_getaffinity(0, sizeof allowed, &allowed), 0);
  const int threads = CPU_COUNT(&allowed);
  if (threads < 2 || usable_cpus() != threads) GTEST_SKIP() << "needs all of two processors";
  ThreadPool pool(threads);
  std::vector<std::atomic<int>> cpus(static_cast<size_t>(threads));
  for (int loop = 0; loop < 20; ++loop) {
    pool.for_each(4 * threads, 1, [&](std::int64_t, std::int64_t, int thread) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      cpu_set_t own;
      CPU_ZERO(&own);
      sched_getaffinity(0, sizeof own, &own);
      cpus[static_cast<size_t>(thread)] = CPU_COUNT(&own);
    });
  }
  EXPECT_EQ(cpus[0], threads);  // the caller's own mask is left alone
  for (size_t worker = 1; worker < cpus.size(); ++worker) EXPECT_EQ(cpus[worker], 1) << worker;
}

}  // namespace
}  // namespace quern
