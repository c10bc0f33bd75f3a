#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

namespace quern::scheduler {
namespace {

std::vector<std::int32_t> prompt(int length) {
  std::vector<std::int32_t> tokens(static_cast<size_t>(length));
  for (int i = 0; i < length; ++i) tokens[static_cast<size_t>(i)] = i;
  return tokens;
}

// The batch is a legal forward pass: positions follow the cache, pages cover the tokens, and no
// page belongs to two sequences.
void expect_legal(const Plan& plan, std::int32_t page_size) {
  std::set<std::int32_t> pages;
  std::int32_t row = 0;
  for (const SequenceSlice& sequence : plan.batch.sequences) {
    EXPECT_EQ(sequence.query_begin, row);
    EXPECT_GE(sequence.query_len, 1);
    EXPECT_GE(std::ssize(sequence.pages) * page_size, sequence.kv_len);
    for (std::int32_t page : sequence.pages) EXPECT_TRUE(pages.insert(page).second);
    for (std::int32_t i = 0; i < sequence.query_len; ++i) {
      EXPECT_EQ(plan.batch.positions[static_cast<size_t>(row + i)],
                sequence.kv_len - sequence.query_len + i);
    }
    row += sequence.query_len;
  }
  EXPECT_EQ(row, plan.batch.tokens());
  EXPECT_EQ(plan.row_requests.size(), plan.batch.logit_rows.size());
}

TEST(Scheduler, PrefillsInChunksThenDecodes) {
  cache::PagePool pool(8);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 16, .page_size = 16}, pool);
  scheduler.add(1, prompt(40));
  for (int length : {16, 16, 8}) {
    const Plan& plan = scheduler.plan();
    expect_legal(plan, 16);
    EXPECT_EQ(plan.batch.tokens(), length);
    EXPECT_EQ(plan.row_requests.empty(), length == 16);
    scheduler.commit();
  }
  scheduler.append(1, 7);
  const Plan& plan = scheduler.plan();
  EXPECT_EQ(plan.batch.tokens(), 1);
  EXPECT_EQ(plan.batch.token_ids[0], 7);
  EXPECT_EQ(plan.batch.positions[0], 40);
  EXPECT_EQ(plan.row_requests, std::vector<RequestId>{1});
  EXPECT_TRUE(scheduler.remove(1));
  EXPECT_FALSE(scheduler.remove(1));
  EXPECT_EQ(pool.used(), 0);
  EXPECT_TRUE(scheduler.plan().batch.token_ids.empty());
}

TEST(Scheduler, DecodesAreNotHeldUpByAPrompt) {
  cache::PagePool pool(100);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 16, .page_size = 16}, pool);
  scheduler.add(1, prompt(3));
  scheduler.plan();
  scheduler.commit();
  scheduler.append(1, 9);
  scheduler.add(2, prompt(200));
  for (int step = 0; step < 12; ++step) {
    const Plan& plan = scheduler.plan();
    expect_legal(plan, 16);
    EXPECT_EQ(plan.batch.tokens(), 17);
    EXPECT_EQ(plan.row_requests, std::vector<RequestId>{1});
    scheduler.commit();
    scheduler.append(1, 9);
  }
}

TEST(Scheduler, FirstComeFirstServedWithinTheLimit) {
  cache::PagePool pool(100);
  Scheduler scheduler({.max_running = 2, .max_prefill_tokens = 64, .page_size = 16}, pool);
  for (RequestId id : {1, 2, 3}) scheduler.add(id, prompt(4));
  EXPECT_EQ(scheduler.plan().row_requests, (std::vector<RequestId>{1, 2}));
  EXPECT_EQ(scheduler.queued(), 1);
  scheduler.commit();
  scheduler.remove(1);
  scheduler.append(2, 5);
  EXPECT_EQ(scheduler.plan().row_requests, (std::vector<RequestId>{2, 3}));
}

TEST(Scheduler, RetractsTheLastComerWhenPagesRunOut) {
  cache::PagePool pool(4);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 64, .page_size = 16}, pool);
  scheduler.add(1, prompt(20));
  scheduler.add(2, prompt(20));
  scheduler.plan();
  scheduler.commit();
  for (int i = 0; i < 12; ++i) {  // up to 32 tokens each: two pages each
    for (RequestId id : {1, 2}) scheduler.append(id, 100 + i);
    EXPECT_EQ(scheduler.plan().row_requests.size(), 2u);
    scheduler.commit();
  }
  for (RequestId id : {1, 2}) scheduler.append(id, 200);
  const Plan& plan = scheduler.plan();  // the 33rd token of each wants a third page
  expect_legal(plan, 16);
  EXPECT_EQ(plan.row_requests, std::vector<RequestId>{1});
  EXPECT_EQ(scheduler.queued(), 1);
  scheduler.commit();
  scheduler.remove(1);
  const Plan& again = scheduler.plan();  // all 33 tokens of the other, computed anew
  expect_legal(again, 16);
  EXPECT_EQ(again.batch.tokens(), 33);
  EXPECT_EQ(again.batch.token_ids.back(), 200);
}

TEST(Scheduler, ALoneRequestThatCannotGrowIsToldSo) {
  cache::PagePool pool(2);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 64, .page_size = 16}, pool);
  EXPECT_FALSE(scheduler.fits(32));
  ASSERT_TRUE(scheduler.fits(31));
  scheduler.add(1, prompt(31));
  scheduler.plan();
  scheduler.commit();
  scheduler.append(1, 5);
  scheduler.plan();
  scheduler.commit();
  scheduler.append(1, 5);
  const Plan& plan = scheduler.plan();
  EXPECT_EQ(plan.out_of_pages, std::vector<RequestId>{1});
  EXPECT_TRUE(plan.batch.token_ids.empty());
  scheduler.remove(1);
  EXPECT_EQ(pool.used(), 0);
}

// Many random requests over a small pool: every plan is legal, pages add up after each step, and
// every request's tokens come out in order, each once.
TEST(Scheduler, RandomLoadKeepsItsBooks) {
  std::mt19937 random(5);
  for (int round = 0; round < 30; ++round) {
    const std::int32_t page_size = round % 2 ? 16 : 4;
    cache::PagePool pool(20 + round);
    Scheduler scheduler({.max_running = 1 + round % 7,
                         .max_prefill_tokens = 5 + round % 20,
                         .page_size = page_size},
                        pool);
    std::map<RequestId, int> left;
    RequestId next = 1;
    for (int step = 0; step < 400; ++step) {
      if (next < 20 && random() % 4 == 0) {
        const int length = 1 + static_cast<int>(random() % 60);
        left[next] = 1 + static_cast<int>(random() % 40);
        if (scheduler.fits(length)) scheduler.add(next, prompt(length));
        ++next;
      }
      if (random() % 20 == 0 && next > 1) scheduler.remove(1 + random() % next);
      const Plan& plan = scheduler.plan();
      expect_legal(plan, page_size);
      EXPECT_LE(pool.used(), pool.total());
      const auto rows = plan.row_requests, full = plan.out_of_pages;
      scheduler.commit();
      for (RequestId id : rows) {
        if (--left[id] == 0) {
          EXPECT_TRUE(scheduler.remove(id));
        } else {
          scheduler.append(id, 1);
        }
      }
      for (RequestId id : full) EXPECT_TRUE(scheduler.remove(id));
    }
    for (RequestId id = 1; id < next; ++id) scheduler.remove(id);
    EXPECT_TRUE(scheduler.idle());
    EXPECT_EQ(pool.used(), 0);
  }
}

}  // namespace
}  // namespace quern::scheduler
