#include "scheduler/scheduler.h"

#include <gtest/gtest.h>

#include <numeric>

#include <map>
#include <random>
#include <vector>

namespace quern::scheduler {
namespace {

// Tokens of which the prompts of two seeds share none.
std::vector<std::int32_t> prompt(int length, int seed = 0) {
  std::vector<std::int32_t> tokens(static_cast<size_t>(length));
  for (int i = 0; i < length; ++i) tokens[static_cast<size_t>(i)] = seed * 1000 + i;
  return tokens;
}

// The batch is a legal forward pass: positions follow the cache, pages cover the tokens, and a page
// that one sequence writes is in no other.
void expect_legal(const Plan& plan, std::int32_t page_size) {
  std::map<std::int32_t, int> readers;
  std::vector<std::int32_t> written;
  std::int32_t row = 0;
  for (const SequenceSlice& sequence : plan.batch.sequences) {
    EXPECT_EQ(sequence.query_begin, row);
    EXPECT_GE(sequence.query_len, 1);
    EXPECT_GE(std::ssize(sequence.pages) * page_size, sequence.kv_len);
    const std::int32_t begin = sequence.kv_len - sequence.query_len;
    for (std::int32_t i = 0; i < std::ssize(sequence.pages); ++i) {
      const std::int32_t page = sequence.pages[static_cast<size_t>(i)];
      ++readers[page];
      if (i >= begin / page_size && i * page_size < sequence.kv_len) written.push_back(page);
    }
    for (std::int32_t i = 0; i < sequence.query_len; ++i) {
      EXPECT_EQ(plan.batch.positions[static_cast<size_t>(row + i)], begin + i);
    }
    row += sequence.query_len;
  }
  for (std::int32_t page : written) EXPECT_EQ(readers[page], 1) << page;
  EXPECT_EQ(row, plan.batch.tokens());
  EXPECT_EQ(plan.row_requests.size(), plan.batch.logit_rows.size());
}

TEST(Scheduler, PrefillsInChunksThenDecodes) {
  cache::PagePool pool(8);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 16, .page_size = 16}, pool);
  scheduler.add({1, prompt(40)});
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
  EXPECT_EQ(scheduler.cache().used(), 0);
  EXPECT_TRUE(scheduler.plan().batch.token_ids.empty());
}

TEST(Scheduler, DecodesAreNotHeldUpByAPrompt) {
  cache::PagePool pool(100);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 16, .page_size = 16}, pool);
  scheduler.add({1, prompt(3)});
  scheduler.plan();
  scheduler.commit();
  scheduler.append(1, 9);
  scheduler.add({2, prompt(200)});
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
  for (int id : {1, 2, 3}) scheduler.add({static_cast<RequestId>(id), prompt(4, id)});
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
  scheduler.add({1, prompt(20, 1)});
  scheduler.add({2, prompt(20, 2)});
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
  // One of its two full pages was taken for the first request: the rest is computed anew.
  const Plan& again = scheduler.plan();
  expect_legal(again, 16);
  EXPECT_EQ(again.batch.tokens(), 17);
  EXPECT_TRUE(again.admitted.empty());  // it had been let in before
  EXPECT_EQ(again.batch.token_ids.back(), 200);
}

TEST(Scheduler, ALoneRequestThatCannotGrowIsToldSo) {
  cache::PagePool pool(2);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 64, .page_size = 16}, pool);
  EXPECT_FALSE(scheduler.fits(32));
  ASSERT_TRUE(scheduler.fits(31));
  scheduler.add({1, prompt(31)});
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
  EXPECT_EQ(scheduler.cache().used(), 0);
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
        if (scheduler.fits(length)) {
          scheduler.add({next, prompt(length, static_cast<int>(random() % 4))});
        }
        ++next;
      }
      if (random() % 20 == 0 && next > 1) scheduler.remove(1 + random() % next);
      const Plan& plan = scheduler.plan();
      expect_legal(plan, page_size);
      scheduler.check();
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
      scheduler.check();
    }
    for (RequestId id = 1; id < next; ++id) scheduler.remove(id);
    EXPECT_TRUE(scheduler.idle());
    EXPECT_EQ(scheduler.cache().used(), 0);
    EXPECT_TRUE(scheduler.flush());
    EXPECT_EQ(pool.used(), 0);
  }
}

// Runs until nothing is left; answers are `answer` tokens long. Returns the tokens computed.
std::int64_t run_out(Scheduler& scheduler, int answer) {
  std::map<RequestId, int> given;
  std::int64_t computed = 0;
  while (!scheduler.idle()) {
    const Plan& plan = scheduler.plan();
    expect_legal(plan, 16);
    scheduler.check();
    computed += plan.batch.tokens();
    const auto rows = plan.row_requests;
    scheduler.commit();
    scheduler.check();
    for (RequestId id : rows) {
      if (++given[id] == answer) {
        scheduler.remove(id);
      } else {
        scheduler.append(id, 7);
      }
    }
  }
  return computed;
}

TEST(Scheduler, ARequestStartsFromItsCachedPrefix) {
  for (const int length : {1, 15, 16, 17, 64, 100}) {
    cache::PagePool pool(50);
    Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 24, .page_size = 16}, pool);
    scheduler.add({1, prompt(length)});
    EXPECT_EQ(run_out(scheduler, 1), length);
    scheduler.add({2, prompt(length)});
    const Plan& plan = scheduler.plan();
    // The last token is computed always: its logits are wanted.
    const int cached = (length - 1) / 16 * 16;
    ASSERT_EQ(plan.admitted.size(), 1u);
    EXPECT_EQ(plan.admitted[0].cached_tokens, cached);
    EXPECT_EQ(plan.batch.tokens(), length - cached);
    scheduler.remove(2);
    EXPECT_EQ(scheduler.cache().used(), 0);
  }
}

TEST(Scheduler, AnAnswerIsCachedForTheNextTurn) {
  cache::PagePool pool(50);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 512, .page_size = 16}, pool);
  scheduler.add({1, prompt(20)});
  run_out(scheduler, 30);  // 49 tokens are computed, three pages
  std::vector<std::int32_t> turn = prompt(20);
  turn.resize(50, 7);
  turn.resize(60, 9);
  scheduler.add({2, turn});
  EXPECT_EQ(run_out(scheduler, 1), 60 - 48);
}

TEST(Scheduler, SpacesAndADisabledCacheShareNothing) {
  for (const bool radix : {true, false}) {
    cache::PagePool pool(50);
    Scheduler scheduler(
        {.max_running = 4, .max_prefill_tokens = 512, .page_size = 16, .radix_cache = radix}, pool);
    scheduler.add({1, prompt(40), "a"});
    run_out(scheduler, 1);
    scheduler.add({2, prompt(40), radix ? "b" : "a"});
    EXPECT_EQ(run_out(scheduler, 1), 40);
    scheduler.add({3, prompt(40), "a"});
    EXPECT_EQ(run_out(scheduler, 1), radix ? 8 : 40);
    EXPECT_EQ(scheduler.cache().used(), 0);
    EXPECT_EQ(pool.used(), radix ? 4 : 0);
  }
}

TEST(Scheduler, OnlyAnIdleCacheIsFlushed) {
  cache::PagePool pool(50);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 512, .page_size = 16}, pool);
  scheduler.add({1, prompt(40)});
  scheduler.plan();
  scheduler.commit();
  EXPECT_FALSE(scheduler.flush());
  scheduler.remove(1);
  EXPECT_EQ(pool.used(), 2);
  EXPECT_TRUE(scheduler.flush());
  EXPECT_EQ(pool.used(), 0);
}

// A page that a step was to fill is not computed where the step failed: nobody may find it.
TEST(Scheduler, OnlyCommittedTokensAreCached) {
  cache::PagePool pool(50);
  Scheduler scheduler({.max_running = 4, .max_prefill_tokens = 32, .page_size = 16}, pool);
  scheduler.add({1, prompt(100)});
  scheduler.plan();
  scheduler.commit();
  scheduler.plan();  // tokens 32 to 64, never committed
  scheduler.remove(1);
  scheduler.add({2, prompt(100)});
  EXPECT_EQ(scheduler.plan().admitted[0].cached_tokens, 32);
}

// The logits of a prompt's tokens from a position on, within the rows of a step, whatever is
// cached.
TEST(Scheduler, GivesThePromptsRowsThatAreWanted) {
  cache::PagePool pool(100);
  Scheduler scheduler(
      {.max_running = 4, .max_prefill_tokens = 64, .max_prompt_rows = 24, .page_size = 16}, pool);
  for (RequestId id = 1; id <= 2; ++id) {  // the second finds its whole prompt in the cache
    scheduler.add({.id = id, .tokens = prompt(100, 1), .logits_from = 40});
    std::vector<std::int32_t> rows;
    for (int step = 0; step < 20 && (rows.empty() || rows.back() != 99); ++step) {
      const Plan& plan = scheduler.plan();
      expect_legal(plan, 16);
      EXPECT_LE(plan.batch.rows(), 25);
      EXPECT_EQ(plan.row_requests.size(), plan.batch.logit_rows.size());
      for (const std::int32_t row : plan.batch.logit_rows) {
        rows.push_back(plan.batch.positions[static_cast<size_t>(row)]);
      }
      scheduler.commit();
    }
    std::vector<std::int32_t> expected(60);
    std::iota(expected.begin(), expected.end(), 40);
    EXPECT_EQ(rows, expected) << id;
    scheduler.append(id, 7);
    EXPECT_EQ(scheduler.plan().batch.rows(), 1);
    scheduler.commit();
    scheduler.remove(id);
    scheduler.check();
  }
}

}  // namespace
}  // namespace quern::scheduler
