// Log-probabilities against a float64 log-softmax, and what a request's edits make of its logits.
#include "engine/logprobs.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>

#include "engine/logit_edits.h"

namespace quern::engine {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

class LetterTokenizer : public text::Tokenizer {
 public:
  std::vector<std::int32_t> encode(std::span<const PromptPiece>,
                                   text::EncodeOptions) const override {
    return {};
  }
  text::TokenText text(std::int32_t id) const override {
    return {id == 0 ? "<end>" : "x", id == 0 ? "<end>" : "x", true};
  }
  bool is_control(std::int32_t id) const override { return id == 0; }
  std::int32_t id_of(std::string_view) const override { return -1; }
  std::int32_t size() const override { return 100'000; }
};

std::vector<float> random_row(std::size_t size, float spread, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> row(size);
  for (float& value : row) value = normal(random);
  return row;
}

std::vector<double> exact(const std::vector<float>& row) {
  const double most = *std::max_element(row.begin(), row.end());
  double sum = 0;
  for (const float value : row) sum += std::exp(static_cast<double>(value) - most);
  std::vector<double> made;
  for (const float value : row) made.push_back(static_cast<double>(value) - most - std::log(sum));
  return made;
}

TEST(Logprobs, AreThoseOfFloat64) {
  const LetterTokenizer tokenizer;
  LogprobReader reader(tokenizer);
  for (const std::size_t size : {1u, 2u, 17u, 512u, 49152u}) {
    for (const float spread : {0.0f, 0.01f, 1.0f, 5.0f, 40.0f}) {
      std::vector<float> row = random_row(size, spread, static_cast<unsigned>(size));
      if (size > 16) row[3] = -kInfinity;
      const std::vector<double> expected = exact(row);
      const auto token = static_cast<std::int32_t>(size / 2);
      LogprobOptions options{.output = true, .top = 7, .token_ids = {0, token}};
      const TokenLogprobs found = reader.read(row, token, options);
      const auto close = [&](const LogprobToken& entry) {
        const double wanted = std::max(expected[static_cast<std::size_t>(entry.id)], -9999.0);
        EXPECT_NEAR(entry.logprob, wanted, 1e-5 * std::max(1.0, std::abs(wanted)))
            << size << spread;
        EXPECT_LE(entry.logprob, 0.0f);
      };
      close(found.token);
      for (const LogprobToken& entry : found.top) close(entry);
      for (const LogprobToken& entry : found.wanted) close(entry);
      EXPECT_EQ(found.wanted.size(), 2u);
      // The likeliest, in order, the lower id first among equals.
      std::vector<std::int32_t> order(size);
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](std::int32_t a, std::int32_t b) {
        return row[static_cast<std::size_t>(a)] > row[static_cast<std::size_t>(b)];
      });
      ASSERT_EQ(found.top.size(), std::min<std::size_t>(7, size));
      for (std::size_t i = 0; i < found.top.size(); ++i) EXPECT_EQ(found.top[i].id, order[i]);
    }
  }
}

TEST(Logprobs, AreFiniteWhateverTheRow) {
  const LetterTokenizer tokenizer;
  LogprobReader reader(tokenizer);
  const LogprobOptions options{.output = true, .top = 3, .token_ids = {0, 1, 99}};
  for (const std::vector<float>& row : {std::vector<float>{-kInfinity, 1},
                                        {-kInfinity, -kInfinity},
                                        {std::nanf(""), 1},
                                        {kInfinity, 1},
                                        {3e38f, -3e38f},
                                        {0}}) {
    const TokenLogprobs found = reader.read(row, 0, options);
    for (const auto* list : {&found.top, &found.wanted}) {
      for (const LogprobToken& entry : *list) {
        EXPECT_TRUE(entry.logprob <= 0 && entry.logprob >= kLeastLogprob) << entry.logprob;
      }
    }
  }
  EXPECT_EQ(reader.read(std::vector<float>{-kInfinity, 1}, 0, options).token.logprob,
            kLeastLogprob);
}

TEST(Logprobs, NameTheirTokens) {
  const LetterTokenizer tokenizer;
  LogprobReader reader(tokenizer);
  const TokenLogprobs found = reader.read(std::vector<float>{1, 2}, 1, {.output = true, .top = 2});
  EXPECT_EQ(found.token.bytes, "x");
  EXPECT_TRUE(found.token.written);
  EXPECT_EQ(found.top[1].bytes, "<end>");
  EXPECT_FALSE(found.top[1].written);
  EXPECT_FALSE(reader.first(5).predicted);
}

std::vector<float> edited(LogitEdits& edits, const std::vector<float>& row) {
  std::vector<float> scratch;
  const std::span<const float> made = edits.apply(row, &scratch);
  return {made.begin(), made.end()};
}

TEST(LogitEdits, PresenceAndFrequencyCountDrawnTokensOnly) {
  const std::vector<float> row = {1, 2, 3, 4};
  LogitEdits edits({.presence_penalty = 0.5, .frequency_penalty = 0.25}, std::vector{3, 3}, {});
  EXPECT_FALSE(edits.none());
  EXPECT_EQ(edited(edits, row), row);
  edits.note(1);
  edits.note(2);
  edits.note(1);
  EXPECT_EQ(edited(edits, row), (std::vector<float>{1, 1, 2.25f, 4}));
}

TEST(LogitEdits, RepetitionCountsThePromptToo) {
  LogitEdits edits({.repetition_penalty = 2}, std::vector{0, 3, 3, 900}, {});
  EXPECT_EQ(edited(edits, {1, 2, -3, -4}), (std::vector<float>{0.5f, 2, -3, -8}));
  edits.note(2);
  edits.note(2);
  EXPECT_EQ(edited(edits, {1, 2, -3, -4}), (std::vector<float>{0.5f, 2, -6, -8}));
}

TEST(LogitEdits, BiasIsAddedAndNeverMakesAnInfinity) {
  LogitEdits edits({.repetition_penalty = 1e-3, .logit_bias = {{0, 5}, {1, -100}, {9, 1}}},
                   std::vector{2}, {});
  const std::vector<float> found = edited(edits, {1, 2, 3e38f, -kInfinity});
  EXPECT_EQ(found[0], 6);
  EXPECT_EQ(found[1], -98);
  EXPECT_EQ(found[2], 1e30f);
  EXPECT_EQ(found[3], -kInfinity);
  // A fault stays one, so that the request ends with it.
  EXPECT_TRUE(std::isnan(edited(edits, {std::nanf(""), 1})[0]));
}

TEST(LogitEdits, NothingEndsBeforeTheLeastTokens) {
  LogitEdits edits({.stop_token_ids = {1}, .min_tokens = 2}, {}, std::vector{0});
  EXPECT_EQ(edited(edits, {5, 4, 3}), (std::vector<float>{-kInfinity, -kInfinity, 3}));
  edits.note(2);
  edits.note(2);
  EXPECT_EQ(edited(edits, {5, 4, 3}), (std::vector<float>{5, 4, 3}));
  EXPECT_TRUE(LogitEdits({}, {}, std::vector{0}).none());
}

}  // namespace
}  // namespace quern::engine
