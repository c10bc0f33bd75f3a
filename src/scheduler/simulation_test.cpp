// Thousands of random schedules over a fake model whose next token depends on what stands in the
// pages, so that a page that is lost, shared wrongly or written twice shows in the answers. After
// each step: every page is in one place, nothing shared is written, who is let in obeys the policy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <random>
#include <set>

#include "scheduler/scheduler.h"

namespace quern::scheduler {
namespace {

using Tokens = std::vector<std::int32_t>;
constexpr std::int32_t kEnd = 0;  // the token that ends an answer

std::int32_t next_token(const Tokens& before) {
  std::uint64_t hash = 1469598103934665603u;
  for (const std::int32_t token : before)
    hash = (hash ^ static_cast<std::uint64_t>(token)) * 1099511628211u;
  return static_cast<std::int32_t>((hash >> 20) % 40);
}

// The answer that a request has alone.
Tokens answer_alone(Tokens tokens, std::int64_t most) {
  Tokens answer;
  while (std::ssize(answer) < most) {
    answer.push_back(next_token(tokens));
    if (answer.back() == kEnd) break;
    tokens.push_back(answer.back());
  }
  return answer;
}

// Pages that hold tokens in place of keys and values.
class FakeModel {
 public:
  FakeModel(std::int32_t pages, std::int32_t page_size)
      : page_size_(page_size), slots_(static_cast<size_t>(pages * page_size), -1) {}

  // Stores the batch, then the next token of each logit row. `shared`: pages nobody may write.
  Tokens forward(const Batch& batch, const std::vector<bool>& shared) {
    std::set<std::int32_t> written;
    for (const SequenceSlice& sequence : batch.sequences) {
      for (std::int32_t i = 0; i < sequence.query_len; ++i) {
        const std::int32_t position = sequence.kv_len - sequence.query_len + i;
        const auto row = static_cast<size_t>(sequence.query_begin + i);
        EXPECT_EQ(batch.positions[row], position);
        const std::int32_t page = sequence.pages[static_cast<size_t>(position / page_size_)];
        EXPECT_FALSE(shared[static_cast<size_t>(page)]) << "page " << page << " is shared";
        const std::int32_t slot = page * page_size_ + position % page_size_;
        EXPECT_TRUE(written.insert(slot).second) << "slot " << slot << " is written twice";
        slots_[static_cast<size_t>(slot)] = batch.token_ids[row];
      }
    }
    Tokens next;
    size_t row = 0;
    for (const SequenceSlice& sequence : batch.sequences) {
      if (row == batch.logit_rows.size()) break;
      if (batch.logit_rows[row] != sequence.query_begin + sequence.query_len - 1) continue;
      Tokens read;
      for (std::int32_t i = 0; i < sequence.kv_len; ++i) {
        const std::int32_t page = sequence.pages[static_cast<size_t>(i / page_size_)];
        read.push_back(slots_[static_cast<size_t>(page * page_size_ + i % page_size_)]);
      }
      next.push_back(next_token(read));
      ++row;
    }
    return next;
  }

 private:
  std::int32_t page_size_;
  std::vector<std::int32_t> slots_;
};

struct Client {
  Tokens prompt, answer;
  std::string space;
  std::int64_t most = 0, priority = 0;
  std::int64_t overtaken = 0;
  bool admitted = false, ended = false;
};

// What the schedules met, so that a change cannot make them harmless without a word.
struct Met {
  std::int64_t steps = 0, retractions = 0, cached_tokens = 0, out_of_pages = 0, failed_steps = 0;
  std::int64_t impatient = 0, flushes = 0, cancels = 0;
};

class Simulation {
 public:
  Simulation(std::uint32_t seed, Met* met)
      : random_(seed),
        met_(*met),
        limits_(random_limits()),
        pages_(below(3) == 0 ? 12 + below(10) : 20 + below(60)),
        pool_(pages_),
        model_(pages_, limits_.page_size),
        scheduler_(limits_, pool_) {}

  void run() {
    const int requests = 5 + below(30);
    int step = 0;
    for (; step < 20'000; ++step) {
      const bool more = std::ssize(clients_) < requests;
      if (!more && scheduler_.idle()) break;
      if (more && below(3) == 0) {
        for (int burst = below(6); burst >= 0; --burst) arrive();
      }
      if (below(40) == 0 && !clients_.empty())
        cancel(1 + static_cast<RequestId>(below(static_cast<int>(clients_.size()))));
      if (below(100) == 0) scheduler_.retract_all();
      if (below(60) == 0) met_.flushes += scheduler_.flush() ? 1 : 0;
      ++met_.steps;
      this->step();
      if (testing::Test::HasFailure()) return;
    }
    ASSERT_TRUE(scheduler_.idle()) << "somebody starved";
    for (auto& [id, client] : clients_) ASSERT_TRUE(client.ended) << id;
    met_.retractions += scheduler_.retracted();
    EXPECT_EQ(scheduler_.cache().used(), 0);
    EXPECT_TRUE(scheduler_.flush());
    EXPECT_EQ(pool_.used(), 0);
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<std::uint32_t>(limit)); }

  Limits random_limits() {
    Limits limits;
    limits.max_running = 1 + below(8);
    limits.max_prefill_tokens = below(4) == 0 ? 1 + below(4) : 8 + below(60);
    limits.page_size = 1 << below(4);
    limits.radix_cache = below(4) != 0;
    limits.policy = static_cast<Policy>(below(3));
    limits.low_priority_first = below(2) == 0;
    limits.preemption_threshold = below(3) == 0 ? -1 : below(4);
    limits.conservativeness = 0.1 + 0.3 * below(5);
    limits.mixed = below(4) != 0;
    limits.patience = 4 + below(10);
    return limits;
  }

  void arrive() {
    const auto id = static_cast<RequestId>(clients_.size() + 1);
    Client client;
    client.space = below(5) == 0 ? "other" : "";
    // A few families of prompts that share beginnings, and turns that go on from an answer.
    const int family = below(4), common = below(40), own = 1 + below(20);
    for (int i = 0; i < common; ++i) client.prompt.push_back(family * 7 + i % 5);
    for (int i = 0; i < own; ++i) client.prompt.push_back(below(3));
    if (below(3) == 0 && id > 1) {
      const Client& before = clients_[1 + static_cast<RequestId>(below(static_cast<int>(id - 1)))];
      client.prompt = before.prompt;
      client.space = before.space;
      client.prompt.insert(client.prompt.end(), before.answer.begin(), before.answer.end());
      client.prompt.push_back(5);
    }
    client.most = 1 + below(30);
    client.priority = below(10);
    client.ended = !scheduler_.fits(std::ssize(client.prompt));
    if (!client.ended) {
      scheduler_.add({.id = id,
                      .tokens = client.prompt,
                      .cache_space = client.space,
                      .max_new_tokens = client.most,
                      .priority = client.priority});
    }
    clients_[id] = std::move(client);
  }

  void cancel(RequestId id) {
    EXPECT_EQ(scheduler_.remove(id), !clients_[id].ended);
    met_.cancels += clients_[id].ended ? 0 : 1;
    clients_[id].ended = true;
  }

  void end(RequestId id, bool whole) {
    Client& client = clients_[id];
    const Tokens alone = answer_alone(client.prompt, client.most);
    ASSERT_LE(client.answer.size(), alone.size());
    EXPECT_TRUE(std::equal(client.answer.begin(), client.answer.end(), alone.begin())) << id;
    if (whole) {
      EXPECT_EQ(client.answer.size(), alone.size()) << id;
    }
    client.ended = true;
    EXPECT_TRUE(scheduler_.remove(id));
  }

  void step() {
    const Plan& plan = scheduler_.plan();
    scheduler_.check();
    expect_policy(plan);
    std::int64_t prompts = 0;
    for (const SequenceSlice& s : plan.batch.sequences)
      prompts += s.query_len > 1 ? s.query_len : 0;
    EXPECT_LE(prompts, limits_.max_prefill_tokens);
    EXPECT_LE(std::ssize(plan.batch.sequences), limits_.max_running);
    std::vector<bool> shared(static_cast<size_t>(pages_));
    if (const auto* tree = scheduler_.cache().tree()) {
      tree->for_each_page([&](std::int32_t page) { shared[static_cast<size_t>(page)] = true; });
    }
    const auto rows = plan.row_requests, full = plan.out_of_pages;
    const Tokens next = model_.forward(plan.batch, shared);
    ASSERT_EQ(next.size(), rows.size());
    met_.out_of_pages += std::ssize(full);
    for (const RequestId id : full) end(id, false);
    if (plan.batch.token_ids.empty()) return;
    if (below(80) == 0) {  // the step failed: its requests end, and nothing of it counts
      ++met_.failed_steps;
      for (const RequestId id : scheduler_.planned()) cancel(id);
      scheduler_.check();
      return;
    }
    const double fine = 0.001 + 1e-4 * plan.load.tokens + 1e-6 * plan.load.pairs;
    scheduler_.commit(below(20) == 0 ? fine * 10 : fine);
    scheduler_.check();
    for (size_t i = 0; i < rows.size(); ++i) {
      Client& client = clients_[rows[i]];
      client.answer.push_back(next[i]);
      if (next[i] == kEnd || std::ssize(client.answer) == client.most) {
        end(rows[i], true);
      } else {
        scheduler_.append(rows[i], next[i]);
      }
    }
    scheduler_.check();
  }

  // Who was let in for the first time, one after the other, against those that wait still.
  void expect_policy(const Plan& plan) {
    for (const auto& [id, cached] : plan.admitted) {
      Client& client = clients_[id];
      client.admitted = true;
      met_.cached_tokens += cached;
      met_.impatient += client.overtaken >= limits_.patience ? 1 : 0;
      EXPECT_LT(cached, std::ssize(client.prompt));
      EXPECT_TRUE(limits_.radix_cache || cached == 0);
      for (auto& [other_id, other] : clients_) {
        if (other.ended || other.admitted) continue;
        if (other_id < id) ++other.overtaken;
        // Nobody is overtaken for ever.
        EXPECT_LE(other.overtaken, limits_.patience + limits_.max_running) << other_id;
        // Without a cache nobody waits for another's prefix, and no prefix is longer.
        // Who comes back from a retraction has overtaken too, which is not seen here.
        if (limits_.radix_cache || scheduler_.retracted() > 0) continue;
        if (other.overtaken >= limits_.patience) continue;
        if (limits_.policy != Policy::kPriority) {
          EXPECT_LT(id, other_id);
        } else if (client.overtaken < limits_.patience) {
          const std::int64_t more = limits_.low_priority_first ? other.priority - client.priority
                                                               : client.priority - other.priority;
          EXPECT_GE(more, 0) << id << " before " << other_id;
          EXPECT_TRUE(more > 0 || id < other_id);
        }
      }
    }
  }

  std::mt19937 random_;
  Met& met_;
  Limits limits_;
  std::int32_t pages_;
  cache::PagePool pool_;
  FakeModel model_;
  Scheduler scheduler_;
  std::map<RequestId, Client> clients_;
};

// QUERN_SIMULATIONS: how many seeds.
TEST(SchedulerSimulation, EveryAnswerIsTheOneThatTheRequestHasAlone) {
  const char* asked = std::getenv("QUERN_SIMULATIONS");
  const int seeds = asked != nullptr ? std::atoi(asked) : 4000;
  Met met;
  for (int seed = 0; seed < seeds; ++seed) {
    Simulation(static_cast<std::uint32_t>(seed), &met).run();
    if (HasFailure()) {
      ADD_FAILURE() << "seed " << seed;
      return;
    }
  }
  EXPECT_GT(met.steps, 50 * seeds);
  EXPECT_GT(met.retractions, seeds);
  EXPECT_GT(met.cached_tokens, 50 * seeds);
  for (const std::int64_t often : {met.flushes, met.cancels, met.failed_steps}) {
    EXPECT_GT(often, seeds / 2);
  }
  EXPECT_GT(met.out_of_pages, seeds / 20);
  EXPECT_GT(met.impatient, seeds / 20);
}

}  // namespace
}  // namespace quern::scheduler
