// What the whole engine tells of probabilities and makes of penalties and bias, on a small model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/engine.h"
#include "kernels/test_safetensors.h"
#include "quern/engine.h"

namespace quern {
namespace {

const std::string kModel = QUERN_TEST_DATA "/models/llama";

EngineOptions options(const std::string& path = kModel) {
  EngineOptions o;
  o.model_path = path;
  o.max_total_tokens = 4096;
  o.random_seed = 1;
  return o;
}

std::vector<std::int32_t> ids_of(int count, int seed = 0) {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < count; ++i) ids.push_back(4 + (i * 37 + seed * 11) % 500);
  return ids;
}

Request ids_request(std::vector<std::int32_t> ids, std::int64_t max_tokens,
                    SamplingParams sampling = {.temperature = 0}) {
  Request request;
  request.token_ids = std::move(ids);
  request.sampling = std::move(sampling);
  request.sampling.max_tokens = max_tokens;
  request.sampling.ignore_eos = true;
  return request;
}

std::vector<TokenEvent> events_of(TokenStream stream) {
  std::vector<TokenEvent> events;
  while (auto event = stream.next()) events.push_back(*event);
  return events;
}

ErrorId refusal(Engine& engine, const Request& request) {
  try {
    engine.submit(request);
  } catch (const Error& error) {
    return error.id();
  }
  return errors::kInternalError;
}

std::vector<double> log_softmax(std::span<const float> row) {
  const double most = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<double>(value) - most);
  std::vector<double> made;
  for (const float value : row) made.push_back(static_cast<double>(value) - most - std::log(sum));
  return made;
}

// Of prompt and first new token, against the golden logits, however the prompt is cut and whatever
// of it is cached.
TEST(Scoring, LogprobsAreThoseOfTheGoldenLogits) {
  for (const std::int64_t chunk : {512, 3}) {
    auto o = options();
    o.dtype = o.kv_cache_dtype = "float32";
    o.chunked_prefill_size = chunk;
    auto engine = Engine::open(o);
    const GoldenArrays golden(kModel + "/golden.safetensors");
    for (int round = 0; round < 2; ++round) {
      for (int p = 0; p < 7; ++p) {
        const std::string name = "p" + std::to_string(p);
        const auto ids = golden.as<std::int32_t>(name + ".ids");
        const auto logits = golden.floats(name + ".logits");
        const auto positions = golden.as<std::int32_t>(name + ".positions");
        Request request = ids_request(ids, 1);
        request.logprobs = {.output = true, .prompt_from = 0, .top = 3, .token_ids = {5, 500}};
        const std::vector<TokenEvent> events = events_of(engine->submit(request));
        ASSERT_EQ(events.size(), 1u);
        std::vector<TokenLogprobs> all = events[0].prompt_logprobs;
        ASSERT_EQ(all.size(), ids.size());
        EXPECT_FALSE(all[0].predicted);
        ASSERT_EQ(events[0].logprobs.size(), 1u);
        EXPECT_EQ(events[0].logprobs[0].token.id, events[0].token_ids[0]);
        all.push_back(events[0].logprobs[0]);
        for (size_t row = 0; row < positions.size(); ++row) {
          const auto expected = log_softmax(std::span(logits).subspan(row * 512, 512));
          const auto next = static_cast<size_t>(positions[row]) + 1;
          const TokenLogprobs& at = all[next];
          if (next < ids.size()) {
            EXPECT_EQ(at.token.id, ids[next]);
          }
          const auto close = [&](const LogprobToken& token) {
            EXPECT_NEAR(token.logprob, expected[static_cast<size_t>(token.id)], 1e-3);
          };
          close(at.token);
          for (const LogprobToken& token : at.top) close(token);
          for (const LogprobToken& token : at.wanted) close(token);
          EXPECT_EQ(at.top.size(), 3u);
          EXPECT_EQ(at.wanted.size(), 2u);
        }
      }
    }
  }
}

TEST(Scoring, LogprobsDoNotDependOnWhatElseRuns) {
  const std::string path = kModel + "/gguf/llama-Q4_1.gguf";
  const auto told = [](Engine& engine, int count) {
    std::vector<TokenStream> streams;
    for (int i = 0; i < count; ++i) {
      Request request = ids_request(ids_of(150 + i * 3, i), 12);
      request.logprobs = {.output = true, .prompt_from = 10, .top = 2};
      streams.push_back(engine.submit(request));
    }
    std::vector<std::vector<float>> all;
    for (TokenStream& stream : streams) {
      std::vector<float>& values = all.emplace_back();
      while (auto event = stream.next()) {
        for (const auto* list : {&event->prompt_logprobs, &event->logprobs}) {
          for (const TokenLogprobs& at : *list) {
            values.push_back(at.token.logprob);
            for (const LogprobToken& token : at.top) values.push_back(token.logprob);
          }
        }
      }
    }
    return all;
  };
  auto wide = Engine::open(options(path));
  const auto expected = told(*wide, 12);
  EXPECT_EQ(expected[0].size(), 140u * 3 - 2 + 12 * 3);
  auto o = options(path);
  o.max_total_tokens = 400;  // some are retracted on their way
  o.chunked_prefill_size = 50;
  auto narrow = Engine::open(o);
  EXPECT_EQ(told(*narrow, 12), expected);
  EXPECT_EQ(told(*wide, 12), expected);  // from the cache
}

TEST(Scoring, APromptAloneCanBeScored) {
  auto engine = Engine::open(options());
  Request request = ids_request(ids_of(20), 0);
  request.logprobs.prompt_from = 4;
  TokenStream stream = engine->submit(request);
  const auto event = stream.next();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->prompt_logprobs.size(), 16u);
  EXPECT_TRUE(event->token_ids.empty());
  EXPECT_EQ(event->finish_reason, FinishReason::kLength);
  EXPECT_EQ(event->completion_tokens, 0);
  request.logprobs.prompt_from = 20;
  EXPECT_EQ(refusal(*engine, request), errors::kSamplingParamInvalid);
  request.logprobs = {.output = true, .token_ids = {512}};
  EXPECT_EQ(refusal(*engine, request), errors::kSamplingParamInvalid);
  request.logprobs = {.output = true, .prompt_from = 0, .top = 1 << 18};
  EXPECT_EQ(refusal(*engine, request), errors::kSamplingParamInvalid);
  request.logprobs = {};
  request.sampling.logit_bias = {{-1, 1.0f}};
  EXPECT_EQ(refusal(*engine, request), errors::kSamplingParamInvalid);
}

TEST(Scoring, BiasAndPenaltiesChangeWhatIsDrawn) {
  auto engine = Engine::open(options());
  const auto ids = [&](SamplingParams sampling) {
    sampling.temperature = 0;
    std::vector<std::int32_t> drawn;
    for (const TokenEvent& event :
         events_of(engine->submit(ids_request(ids_of(9), 20, sampling)))) {
      drawn.insert(drawn.end(), event.token_ids.begin(), event.token_ids.end());
    }
    return drawn;
  };
  const auto plain = ids({});
  EXPECT_EQ(ids({.logit_bias = {{77, 100.0f}}}), std::vector<std::int32_t>(20, 77));
  auto banned = ids({.logit_bias = {{plain[0], -100.0f}}});
  EXPECT_EQ(std::count(banned.begin(), banned.end(), plain[0]), 0);
  const auto distinct = [](std::vector<std::int32_t> all) {
    std::sort(all.begin(), all.end());
    return std::unique(all.begin(), all.end()) - all.begin();
  };
  // With a bias that wins at first the penalty of each time it was drawn ends its reign.
  EXPECT_GT(distinct(ids({.frequency_penalty = 2, .logit_bias = {{77, 20.0f}}})), 1);
  EXPECT_EQ(ids({.presence_penalty = 0, .repetition_penalty = 1}), plain);
}

}  // namespace
}  // namespace quern
