// What the flags of scheduling do to a whole engine: full queues, priorities, timeouts, chunks.
#include "engine/scheduling.h"

#include <gtest/gtest.h>

#include <thread>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/engine.h"

namespace quern {
namespace {

EngineOptions options() {
  EngineOptions o;
  o.model_path = QUERN_TEST_DATA "/models/llama";
  o.max_total_tokens = 4096;
  o.max_running_requests = 1;
  o.random_seed = 1;
  return o;
}

Request request(int length, int seed, std::int64_t max_tokens, std::int64_t priority = 0) {
  Request made;
  made.token_ids.emplace();
  for (int i = 0; i < length; ++i) made.token_ids->push_back(4 + (i * 37 + seed * 11) % 500);
  made.sampling = {.temperature = 0, .max_tokens = max_tokens, .ignore_eos = true};
  made.priority = priority;
  return made;
}

struct Answer {
  std::vector<std::int32_t> ids;
  TokenEvent last;
};

Answer collect(TokenStream stream) {
  Answer answer;
  while (auto event = stream.next()) {
    answer.ids.insert(answer.ids.end(), event->token_ids.begin(), event->token_ids.end());
    answer.last = *event;
  }
  return answer;
}

bool has_error(const TokenEvent& event, ErrorId id) {
  return event.finish_reason == FinishReason::kError && event.error_id == error_entry(id).id &&
         event.error_http_status == 503 && event.error_message == error_entry(id).message;
}

TEST(Scheduling, AFullQueueRefuses) {
  auto o = options();
  o.max_queued_requests = 2;
  auto engine = Engine::open(o);
  auto running = engine->submit(request(20, 0, 1500));
  running.next();
  std::vector<TokenStream> waiting;
  for (int i = 1; i <= 2; ++i) waiting.push_back(engine->submit(request(20, i, 3)));
  try {
    engine->submit(request(20, 3, 3));
    ADD_FAILURE() << "taken";
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kQueueFull);
    EXPECT_EQ(error.entry().http_status, 503);
  }
  engine->cancel(running.id());
  for (TokenStream& stream : waiting) EXPECT_EQ(collect(std::move(stream)).ids.size(), 3u);
  EXPECT_EQ(collect(engine->submit(request(20, 3, 3))).ids.size(), 3u);
}

TEST(Scheduling, AFullQueueGivesWayToAHigherPriority) {
  auto o = options();
  o.max_queued_requests = 2;
  o.enable_priority_scheduling = true;
  o.disable_priority_preemption = true;
  auto engine = Engine::open(o);
  auto running = engine->submit(request(20, 0, 1500));
  running.next();
  auto low = engine->submit(request(20, 1, 3, 1));
  auto middle = engine->submit(request(20, 2, 3, 5));
  auto lower = engine->submit(request(20, 3, 3, 0));
  EXPECT_TRUE(has_error(collect(std::move(lower)).last, errors::kQueueFull));
  auto high = engine->submit(request(20, 4, 3, 9));
  EXPECT_TRUE(has_error(collect(std::move(low)).last, errors::kPreemptedInQueue));
  engine->cancel(running.id());
  EXPECT_EQ(collect(std::move(middle)).ids.size(), 3u);
  EXPECT_EQ(collect(std::move(high)).ids.size(), 3u);
}

TEST(Scheduling, APriorityPreemptsAndTheOtherGoesOnWithTheSameTokens) {
  auto o = options();
  const auto expected = collect(Engine::open(o)->submit(request(20, 0, 200)));
  o.schedule_policy = "priority";
  auto engine = Engine::open(o);
  auto low = engine->submit(request(20, 0, 200));
  const auto first = low.next();
  const auto high = collect(engine->submit(request(20, 1, 30, 11)));
  EXPECT_EQ(high.ids.size(), 30u);
  const auto rest = collect(std::move(low));
  auto ids = first->token_ids;
  ids.insert(ids.end(), rest.ids.begin(), rest.ids.end());
  EXPECT_EQ(ids, expected.ids);
  EXPECT_EQ(engine->stats().retracted_total, 1);
}

TEST(Scheduling, LateRequestsEnd) {
  auto o = options();
  o.request_waiting_timeout = 0.05;
  o.request_running_timeout = 0.3;
  auto engine = Engine::open(o);
  auto running = engine->submit(request(20, 0, 2000));
  running.next();
  auto waiting = engine->submit(request(20, 1, 3));
  EXPECT_TRUE(has_error(collect(std::move(waiting)).last, errors::kRequestWaitingTimeout));
  const auto begin = std::chrono::steady_clock::now();
  const Answer answer = collect(std::move(running));
  // A machine so fast that it ended before has nothing to time out.
  if (answer.last.finish_reason == FinishReason::kError) {
    EXPECT_TRUE(has_error(answer.last, errors::kRequestRunningTimeout));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

TEST(Scheduling, FlagsBecomeLimits) {
  auto o = options();
  EngineInfo info;
  info.chunked_prefill_size = 512;
  info.max_prefill_tokens = 100;
  EXPECT_EQ(engine::scheduler_limits(o, info).max_prefill_tokens, 100);
  EXPECT_EQ(engine::scheduler_limits(o, info).preemption_threshold, 10);
  o.disable_priority_preemption = true;
  EXPECT_EQ(engine::scheduler_limits(o, info).preemption_threshold, -1);
  o.schedule_policy = "lpm";
  EXPECT_EQ(engine::policy_of(o), scheduler::Policy::kLpm);
  o.enable_priority_scheduling = true;
  EXPECT_EQ(engine::policy_of(o), scheduler::Policy::kPriority);
  o = options();
  o.schedule_policy = "lottery";
  try {
    Engine::open(o);
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kInvalidFlagValue);
    EXPECT_EQ(error.field("flag"), "--schedule-policy");
  }
}

// Thirty-two users bring one prompt at once, each with its own seed: it is computed once.
TEST(Scheduling, ChoicesOfOnePromptShareItsPages) {
  auto o = options();
  o.max_running_requests = 32;
  auto engine = Engine::open(o);
  std::vector<TokenStream> streams;
  engine->pause(PauseMode::kInPlace);
  for (int i = 0; i < 32; ++i) {
    auto made = request(100, 0, 8);
    made.sampling.temperature = 1;
    made.sampling.seed = i;
    streams.push_back(engine->submit(made));
  }
  engine->resume();
  std::int64_t cached = 0;
  for (TokenStream& stream : streams) cached += collect(std::move(stream)).last.cached_tokens;
  EXPECT_EQ(cached, 31 * 96);
}

}  // namespace
}  // namespace quern
