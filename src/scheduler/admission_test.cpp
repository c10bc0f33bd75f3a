// Policies, waiting for a prefix that is being computed, preemption by priority, what is reserved
// for answers, and how long a step may take.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "scheduler/scheduler.h"

namespace quern::scheduler {
namespace {

std::vector<std::int32_t> prompt(int length, int seed) {
  std::vector<std::int32_t> tokens(static_cast<size_t>(length));
  for (int i = 0; i < length; ++i) tokens[static_cast<size_t>(i)] = seed * 1000 + i;
  return tokens;
}

std::vector<std::int32_t> joined(std::vector<std::int32_t> a, const std::vector<std::int32_t>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::vector<RequestId> admitted(const Plan& plan) {
  std::vector<RequestId> ids;
  for (const auto& admitted : plan.admitted) ids.push_back(admitted.id);
  return ids;
}

// One step in which every answer goes on with token 7. Returns who was let in.
std::vector<RequestId> step(Scheduler& scheduler, double seconds = 0) {
  const Plan& plan = scheduler.plan();
  scheduler.check();
  const auto ids = admitted(plan);
  const auto rows = plan.row_requests;
  scheduler.commit(seconds);
  for (RequestId id : rows) scheduler.append(id, 7);
  scheduler.check();
  return ids;
}

using Ids = std::vector<RequestId>;

TEST(Admission, APrefixThatManyBringAtOnceIsComputedOnce) {
  for (const Policy policy : {Policy::kFcfs, Policy::kLpm, Policy::kPriority}) {
    cache::PagePool pool(500);
    Scheduler scheduler(
        {.max_running = 64, .max_prefill_tokens = 128, .page_size = 16, .policy = policy}, pool);
    for (int i = 1; i <= 50; ++i) {
      scheduler.add(
          {.id = static_cast<RequestId>(i), .tokens = joined(prompt(320, 1), prompt(5, 1 + i))});
    }
    std::int64_t computed = 0;
    std::map<RequestId, int> answers;
    while (!scheduler.idle()) {
      const Plan& plan = scheduler.plan();
      computed += plan.batch.tokens();
      const auto rows = plan.row_requests;
      scheduler.commit();
      for (RequestId id : rows) scheduler.remove(id);
    }
    EXPECT_EQ(computed, 320 + 50 * 5);
  }
}

// The others go on meanwhile: only those that need the prefix wait.
TEST(Admission, WhoSharesNothingDoesNotWait) {
  cache::PagePool pool(500);
  Scheduler scheduler({.max_running = 64, .max_prefill_tokens = 128, .page_size = 16}, pool);
  scheduler.add({.id = 1, .tokens = joined(prompt(64, 1), prompt(5, 2))});
  scheduler.add({.id = 2, .tokens = joined(prompt(64, 1), prompt(5, 3))});
  scheduler.add({.id = 3, .tokens = prompt(20, 4)});
  scheduler.add({.id = 4, .tokens = joined(prompt(64, 1), prompt(5, 5)), .cache_space = "own"});
  EXPECT_EQ(step(scheduler), (Ids{1, 3, 4}));
  const Plan& plan = scheduler.plan();
  ASSERT_EQ(plan.admitted.size(), 1u);
  EXPECT_EQ(plan.admitted[0].id, 2u);
  EXPECT_EQ(plan.admitted[0].cached_tokens, 64);
}

TEST(Admission, TheLongestCachedPrefixGoesFirst) {
  cache::PagePool pool(500);
  Scheduler scheduler(
      {.max_running = 1, .max_prefill_tokens = 512, .page_size = 16, .policy = Policy::kLpm}, pool);
  scheduler.add({.id = 1, .tokens = prompt(100, 1)});
  step(scheduler);
  scheduler.add({.id = 2, .tokens = prompt(50, 2)});
  scheduler.add({.id = 3, .tokens = joined(prompt(32, 1), prompt(9, 3))});
  scheduler.add({.id = 4, .tokens = joined(prompt(64, 1), prompt(9, 4))});
  Ids order;
  for (RequestId now = 1; order.size() < 3; now = order.back()) {
    scheduler.remove(now);
    const auto ids = step(scheduler);
    ASSERT_EQ(ids.size(), 1u);
    order.push_back(ids[0]);
  }
  EXPECT_EQ(order, (Ids{4, 3, 2}));
}

// A stream of later requests with a better claim: the first one is let in after `patience` of them.
TEST(Admission, NobodyStarves) {
  for (const Policy policy : {Policy::kLpm, Policy::kPriority}) {
    cache::PagePool pool(500);
    Scheduler scheduler({.max_running = 1,
                         .max_prefill_tokens = 512,
                         .page_size = 16,
                         .policy = policy,
                         .patience = 10},
                        pool);
    scheduler.add({.id = 1, .tokens = prompt(100, 1), .priority = 9});
    step(scheduler);
    scheduler.add({.id = 2, .tokens = prompt(100, 2)});
    RequestId now = 1;
    int others = 0;
    for (RequestId id = 3; id < 40 && now != 2; ++id) {
      scheduler.add({.id = id, .tokens = prompt(100, 1), .priority = 9});
      scheduler.remove(now);
      const auto ids = step(scheduler);
      ASSERT_EQ(ids.size(), 1u);
      now = ids[0];
      ++others;
    }
    EXPECT_EQ(now, 2u);
    EXPECT_EQ(others, 11);
  }
}

TEST(Admission, APriorityTakesTheLowestPlaceAboveTheThreshold) {
  for (const bool low_first : {false, true}) {
    const int sign = low_first ? -1 : 1;
    cache::PagePool pool(500);
    Scheduler scheduler({.max_running = 2,
                         .max_prefill_tokens = 512,
                         .page_size = 16,
                         .policy = Policy::kPriority,
                         .low_priority_first = low_first,
                         .preemption_threshold = 10},
                        pool);
    scheduler.add({.id = 1, .tokens = prompt(40, 1), .max_new_tokens = 50, .priority = 5 * sign});
    scheduler.add({.id = 2, .tokens = prompt(40, 2), .max_new_tokens = 50, .priority = 3 * sign});
    EXPECT_EQ(step(scheduler), (Ids{1, 2}));
    scheduler.add({.id = 3, .tokens = prompt(40, 3), .max_new_tokens = 50, .priority = 13 * sign});
    EXPECT_EQ(step(scheduler), Ids{});  // 10 more than the lowest are not more than 10
    scheduler.add({.id = 4, .tokens = prompt(40, 4), .max_new_tokens = 50, .priority = 14 * sign});
    EXPECT_EQ(step(scheduler), Ids{4});
    EXPECT_EQ(scheduler.queued(), 2);
    EXPECT_EQ(scheduler.last_new(), 3u);
    scheduler.remove(4);
    EXPECT_EQ(step(scheduler), Ids{3});
    scheduler.remove(3);
    // The one that made room comes back, and only what was not cached is computed again.
    const Plan& plan = scheduler.plan();
    EXPECT_EQ(plan.batch.sequences.size(), 2u);
    EXPECT_LE(plan.batch.tokens(), 1 + 16);
    EXPECT_EQ(scheduler.retracted(), 1);
  }
}

TEST(Admission, PagesAreReservedByTheLengthsThatAnswersReach) {
  const auto let_in = [](int answer, double conservativeness) {
    cache::PagePool pool(100);  // 1600 tokens
    Scheduler scheduler({.max_running = 64,
                         .max_prefill_tokens = 2048,
                         .page_size = 16,
                         .conservativeness = conservativeness},
                        pool);
    RequestId id = 0;
    for (int i = 0; i < 20; ++i) {  // answers of this length were seen
      scheduler.add(
          {.id = ++id, .tokens = prompt(16, static_cast<int>(id)), .max_new_tokens = 1000});
      for (int token = 0; token + 1 < answer; ++token) step(scheduler);
      scheduler.plan();
      scheduler.commit();
      scheduler.remove(id);
    }
    for (int i = 0; i < 64; ++i) {
      ++id;
      scheduler.add({.id = id, .tokens = prompt(16, static_cast<int>(id)), .max_new_tokens = 1000});
    }
    scheduler.plan();
    return scheduler.running();
  };
  // A prompt's page, the next, and what the answer is expected to take.
  EXPECT_EQ(let_in(16, 1), 50);
  EXPECT_NEAR(static_cast<double>(let_in(160, 1)), 9, 1);
  EXPECT_LT(let_in(160, 2), 6);
  EXPECT_GT(let_in(160, 0.3), 20);
}

// Far more asked for than there is: pages run out, victims come back, all end.
TEST(Admission, TooMuchLetInIsRetractedAndEnds) {
  cache::PagePool pool(20);
  Scheduler scheduler(
      {.max_running = 64, .max_prefill_tokens = 512, .page_size = 16, .conservativeness = 0.01},
      pool);
  std::map<RequestId, int> made;
  for (RequestId id = 1; id <= 12; ++id) {
    scheduler.add({.id = id, .tokens = prompt(20, static_cast<int>(id)), .max_new_tokens = 100});
  }
  int steps = 0;
  std::int64_t computed = 0;
  while (!scheduler.idle() && ++steps < 5000) {
    const Plan& plan = scheduler.plan();
    scheduler.check();
    computed += plan.batch.tokens();
    ASSERT_TRUE(plan.out_of_pages.empty());
    const auto rows = plan.row_requests;
    scheduler.commit();
    for (RequestId id : rows) {
      if (++made[id] == 100) {
        scheduler.remove(id);
      } else {
        scheduler.append(id, 7);
      }
    }
  }
  EXPECT_TRUE(scheduler.idle());
  EXPECT_GT(scheduler.retracted(), 0);
  EXPECT_LT(scheduler.retracted(), 24);
  EXPECT_LT(computed, 2 * 12 * 119);  // nothing is computed more than twice on the whole
}

// Steps cost 10 ms and 1 ms a token. Eight streams: a long prompt may double their steps, no more.
TEST(Admission, AChunkIsSizedByTheTimeOfTheStep) {
  cache::PagePool pool(5000);
  Scheduler scheduler({.max_running = 64, .max_prefill_tokens = 512, .page_size = 16}, pool);
  const auto time_of = [](const Plan& plan) { return 0.010 + 0.001 * plan.load.tokens; };
  const auto timed_step = [&] {
    const Plan& plan = scheduler.plan();
    const double seconds = time_of(plan);
    const auto rows = plan.row_requests;
    scheduler.commit(seconds);
    for (RequestId id : rows) scheduler.append(id, 7);
    return seconds;
  };
  for (RequestId id = 1; id <= 8; ++id) {
    scheduler.add({.id = id, .tokens = prompt(20, static_cast<int>(id)), .max_new_tokens = 4000});
  }
  for (int i = 0; i < 20; ++i) timed_step();
  scheduler.add({.id = 9, .tokens = prompt(7000, 9), .max_new_tokens = 10});
  double longest = 0;
  int steps = 0;
  while (scheduler.queued() + scheduler.running() > 0 && ++steps < 2000) {
    longest = std::max(longest, timed_step());
    const Plan& next = scheduler.plan();
    if (std::count(next.row_requests.begin(), next.row_requests.end(), RequestId{9}) > 0) break;
    EXPECT_GT(next.batch.tokens(), 8 + 15);  // and it gets on in every step
  }
  EXPECT_LT(longest, 2.2 * 0.018);
  EXPECT_LT(steps, 7000 / 16);
  // Alone it takes all the budget.
  for (RequestId id = 1; id <= 9; ++id) scheduler.remove(id);
  scheduler.add({.id = 10, .tokens = prompt(7000, 10), .max_new_tokens = 10});
  EXPECT_EQ(scheduler.plan().batch.tokens(), 512);
}

TEST(Admission, WithoutMixingPromptsAndDecodesTakeTurns) {
  cache::PagePool pool(500);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 16, .page_size = 16, .mixed = false},
                      pool);
  scheduler.add({.id = 1, .tokens = prompt(10, 1), .max_new_tokens = 100});
  step(scheduler);
  scheduler.add({.id = 2, .tokens = prompt(64, 2), .max_new_tokens = 100});
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < 9; ++i) {
    const Plan& plan = scheduler.plan();
    sizes.push_back(plan.batch.tokens());
    const auto rows = plan.row_requests;
    scheduler.commit();
    for (RequestId id : rows) scheduler.append(id, 7);
  }
  EXPECT_EQ(sizes, (std::vector<std::int64_t>{1, 16, 1, 16, 1, 16, 1, 16, 2}));
}

TEST(StepTime, FindsTheCostsOfStepsWithNoiseAndOutliers) {
  StepTime time;
  EXPECT_FALSE(time.known());
  std::uint32_t random = 1;
  for (int i = 0; i < 400; ++i) {
    random = random * 1664525 + 1013904223;
    StepLoad load;
    load.add(random % 4000, 1 + (i % 3 == 0 ? random >> 24 : random >> 28));
    const double fine = 0.008 + 0.0004 * load.tokens + 2e-8 * load.pairs;
    const double noise = 1 + 0.05 * (static_cast<double>(random >> 8 & 255) / 128 - 1);
    time.observe(load, i % 40 == 39 ? 20 * fine : noise * fine);
  }
  ASSERT_TRUE(time.known());
  for (const std::int64_t context : {0, 3000}) {
    for (const std::int64_t tokens : {1, 16, 64, 200}) {
      StepLoad load;
      load.add(context, tokens);
      const double fine = 0.008 + 0.0004 * load.tokens + 2e-8 * load.pairs;
      EXPECT_NEAR(time.predict(load), fine, 0.3 * fine) << tokens << " behind " << context;
    }
  }
}

// Small steps are bound by memory and cost all the same; no straight line fits both kinds.
TEST(StepTime, FollowsCostsThatAreNoStraightLine) {
  const auto cost = [](double tokens) { return 0.020 + (tokens > 40 ? 0.002 * (tokens - 40) : 0); };
  StepTime time;
  for (int round = 0; round < 20; ++round) {
    for (const std::int64_t tokens : {1, 8, 32, 64, 512}) {
      StepLoad load;
      load.add(0, tokens);
      time.observe(load, cost(static_cast<double>(tokens)));
    }
  }
  for (const std::int64_t tokens : {1, 8, 32, 64, 512}) {
    StepLoad load;
    load.add(0, tokens);
    EXPECT_NEAR(time.predict(load), cost(load.tokens), 0.05 * cost(load.tokens)) << tokens;
  }
}

TEST(AnswerLength, LearnsFromWhatEnded) {
  AnswerLength length(1);
  EXPECT_EQ(length.remaining(0, 100), 70);
  EXPECT_EQ(length.remaining(0, 1), 1);
  EXPECT_EQ(length.remaining(0, 1 << 30), 2868);
  for (int i = 0; i < 100; ++i) length.ended(50);
  EXPECT_EQ(length.remaining(0, 1000), 50);
  EXPECT_EQ(length.remaining(20, 1000), 30);
  EXPECT_EQ(length.remaining(200, 1000), 50);  // past what is usual
  EXPECT_EQ(length.remaining(990, 1000), 10);
  length.ran_out();
  EXPECT_EQ(length.remaining(0, 1000), 100);
  for (int i = 0; i < 2000; ++i) length.step();
  EXPECT_EQ(length.remaining(0, 1000), 51);
}

}  // namespace
}  // namespace quern::scheduler
