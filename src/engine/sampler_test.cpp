#include "engine/sampler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>

#include "base/error.h"
#include "base/errors/engine.h"

namespace quern::engine {
namespace {

const std::vector<float> kLogits = {1.0f, 3.0f, 2.0f, 3.0f, -5.0f};

std::map<std::int32_t, int> draw(const SamplingParams& params, int count,
                                 const std::vector<float>& logits = kLogits) {
  Sampler sampler;
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < count; ++i) {
    ++counts[*sampler.sample(logits, params, 42, static_cast<std::uint64_t>(i))];
  }
  return counts;
}

TEST(Sampler, GreedyTakesTheBestAndTheLowestIdAmongEquals) {
  Sampler sampler;
  for (SamplingParams params : {SamplingParams{.temperature = 0}, SamplingParams{.top_k = 1},
                                SamplingParams{.temperature = 1e-10}}) {
    EXPECT_EQ(sampler.sample(kLogits, params, 1, 1), 1);
  }
}

TEST(Sampler, DrawsWithTheRightFrequencies) {
  const auto counts = draw({.temperature = 1.0}, 20000);
  double total = 0;
  for (float logit : kLogits) total += std::exp(logit);
  for (size_t id = 0; id < 4; ++id) {
    const double expected = std::exp(kLogits[id]) / total;
    EXPECT_NEAR(counts.at(static_cast<std::int32_t>(id)) / 20000.0, expected, 0.015) << id;
  }
}

TEST(Sampler, FiltersKeepWhatTheyShould) {
  EXPECT_EQ(draw({.top_k = 2}, 500).size(), 2u);
  EXPECT_EQ(draw({.top_k = 3}, 500).size(), 3u);
  // The two best hold 0.4 each: 0.39 is reached by one of them, 0.5 by both.
  EXPECT_EQ(draw({.top_p = 0.39}, 500).size(), 1u);
  EXPECT_EQ(draw({.top_p = 0.5}, 500).size(), 2u);
  EXPECT_EQ(draw({.top_k = 2, .top_p = 0.4}, 500).size(), 1u);  // of the mass that top_k left
  EXPECT_EQ(draw({.min_p = 0.9}, 500).size(), 2u);
  EXPECT_EQ(draw({.min_p = 1.0}, 500).size(), 2u);
  for (std::int64_t off : {0L, -1L, 5L, 9999999L}) {
    EXPECT_GE(draw({.temperature = 3, .top_k = off}, 2000).size(), 5u) << off;
  }
}

TEST(Sampler, TheSameSeedAndPositionGiveTheSameToken) {
  Sampler one, other;
  const SamplingParams params{.temperature = 2.0};
  int differ = 0;
  for (std::uint64_t position = 0; position < 200; ++position) {
    EXPECT_EQ(one.sample(kLogits, params, 7, position), other.sample(kLogits, params, 7, position));
    differ += one.sample(kLogits, params, 7, position) != one.sample(kLogits, params, 8, position);
  }
  EXPECT_GT(differ, 20);
}

TEST(Sampler, NeverPicksFromWhatIsNotANumber) {
  Sampler sampler;
  const float nan = std::nanf(""), infinity = std::numeric_limits<float>::infinity();
  for (double temperature : {0.0, 1.0}) {
    const SamplingParams params{.temperature = temperature};
    EXPECT_EQ(sampler.sample(std::vector<float>{1, nan, 2}, params, 1, 1), std::nullopt);
    EXPECT_EQ(sampler.sample(std::vector<float>{1, infinity}, params, 1, 1), std::nullopt);
    EXPECT_EQ(sampler.sample(std::vector<float>{-infinity, -infinity}, params, 1, 1), std::nullopt);
    EXPECT_EQ(sampler.sample(std::vector<float>{-infinity, 1}, params, 1, 1), 1);
  }
}

TEST(Sampler, RefusesParametersOutOfRange) {
  const auto refused = [](const SamplingParams& params) {
    try {
      Sampler::check(params);
    } catch (const Error& error) {
      return error.id() == errors::kSamplingParamInvalid;
    }
    return false;
  };
  EXPECT_FALSE(refused({}));
  EXPECT_FALSE(refused({.top_k = -1, .max_tokens = 1}));
  EXPECT_TRUE(refused({.temperature = -0.1}));
  EXPECT_TRUE(refused({.temperature = std::numeric_limits<double>::infinity()}));
  EXPECT_TRUE(refused({.top_k = -2}));
  EXPECT_TRUE(refused({.top_p = 1.0001}));
  EXPECT_TRUE(refused({.top_p = 0}));
  EXPECT_FALSE(refused({.top_p = 1e-9}));
  EXPECT_TRUE(refused({.min_p = 1.5}));
  EXPECT_FALSE(refused({.max_tokens = 0}));
  EXPECT_TRUE(refused({.max_tokens = -2}));
  EXPECT_TRUE(refused({.min_tokens = -1}));
  EXPECT_TRUE(refused({.presence_penalty = 2.1}));
  EXPECT_TRUE(refused({.frequency_penalty = std::nan("")}));
  EXPECT_TRUE(refused({.repetition_penalty = 0}));
  EXPECT_TRUE(refused({.logit_bias = {{1, std::numeric_limits<float>::infinity()}}}));
  EXPECT_TRUE(refused({.stop = {""}}));
}

TEST(Sampler, ShowsTheValueThatItRefuses) {
  const auto message = [](const SamplingParams& params) -> std::string {
    try {
      Sampler::check(params);
    } catch (const Error& error) {
      return error.message();
    }
    return "";
  };
  EXPECT_EQ(
      message({.stop = {"a", ""}}),
      "Invalid sampling parameter stop: it must be a text that is not empty, and it is empty.");
  EXPECT_EQ(message({.top_p = 0}),
            "Invalid sampling parameter top_p: it must be above 0 and at most 1, and it is 0.");
  EXPECT_EQ(message({.top_k = -2}),
            "Invalid sampling parameter top_k: it must be -1 or more, and it is -2.");
}

TEST(CounterUniform, StaysInRangeAndSpreads) {
  double sum = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) {
    const double u = counter_uniform(3, i);
    EXPECT_GE(u, 0.0);
    EXPECT_LT(u, 1.0);
    sum += u;
  }
  EXPECT_NEAR(sum / 10000, 0.5, 0.02);
}

}  // namespace
}  // namespace quern::engine
