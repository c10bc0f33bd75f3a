#include "base/threads.h"

#include <gtest/gtest.h>

#include <numeric>

namespace quern {
namespace {

TEST(ThreadPool, EveryWorkerRunsOnceAJob) {
  for (int threads : {1, 2, 3, 8}) {
    ThreadPool pool(threads);
    std::vector<int> runs(threads);
    for (int job = 0; job < 1000; ++job) pool.run([&](int thread) { ++runs[thread]; });
    EXPECT_EQ(runs, std::vector<int>(threads, 1000));
  }
}

TEST(ThreadPool, BarrierSeparatesPhases) {
  ThreadPool pool(3);
  std::vector<int> first(3), sums(3);
  for (int job = 1; job < 500; ++job) {
    pool.run([&](int thread) {
      first[thread] = job;
      pool.barrier();
      sums[thread] = std::accumulate(first.begin(), first.end(), 0);
      pool.barrier();
    });
    EXPECT_EQ(sums, std::vector<int>(3, 3 * job));
  }
}

TEST(ThreadPool, SleepingWorkersWake) {
  ThreadPool pool(2);
  for (int job = 0; job < 5; ++job) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    int ran = 0;
    pool.run([&](int thread) {
      if (thread == 1) ran = 1;
    });
    EXPECT_EQ(ran, 1);
  }
}

TEST(Share, CoversEveryItemOnce) {
  for (int threads : {1, 2, 7}) {
    std::int64_t next = 0;
    for (int thread = 0; thread < threads; ++thread) {
      EXPECT_EQ(share(23, thread, threads).begin, next);
      next = share(23, thread, threads).end;
    }
    EXPECT_EQ(next, 23);
  }
}

}  // namespace
}  // namespace quern
