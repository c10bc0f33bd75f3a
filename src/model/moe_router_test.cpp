// The choice of experts: values worked out by hand for each kind, and those of the fixtures.
#include "model/layers/moe_router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/error.h"
#include "base/errors/model.h"

namespace quern::model {
namespace {

using testing::ElementsAre;
using testing::FloatNear;

struct Routed {
  std::vector<std::int32_t> experts;
  std::vector<float> weights;
};

Routed routed(const ExpertRouting& routing, std::vector<float> logits, size_t slots,
              const std::vector<float>& bias = {}) {
  Routed to{std::vector<std::int32_t>(slots), std::vector<float>(slots)};
  route(routing, logits, bias, to.experts, to.weights);
  return to;
}

auto near(double value) { return FloatNear(static_cast<float>(value), 1e-6f); }

// The logarithms of numbers: their softmax is the numbers over their sum.
std::vector<float> logs(const std::vector<double>& numbers) {
  std::vector<float> logits;
  for (const double number : numbers) logits.push_back(static_cast<float>(std::log(number)));
  return logits;
}

// The logits whose sigmoids are these.
std::vector<float> logits_of(const std::vector<double>& sigmoids) {
  std::vector<float> logits;
  for (const double s : sigmoids) logits.push_back(static_cast<float>(std::log(s / (1 - s))));
  return logits;
}

TEST(Route, TakesTheBestOfASoftmaxOverAllExperts) {
  const Routed to = routed({}, logs({1, 4, 2, 3}), 2);
  EXPECT_THAT(to.experts, ElementsAre(1, 3));
  EXPECT_THAT(to.weights, ElementsAre(near(0.4), near(0.3)));
}

TEST(Route, NormalisesAndScales) {
  ExpertRouting routing;
  routing.normalize = true;
  EXPECT_THAT(routed(routing, logs({1, 4, 2, 3}), 2).weights,
              ElementsAre(near(4.0 / 7), near(3.0 / 7)));
  routing.scale = 2.5;
  EXPECT_THAT(routed(routing, logs({1, 4, 2, 3}), 2).weights,
              ElementsAre(near(10.0 / 7), near(7.5 / 7)));
  routing.normalize = false;
  EXPECT_THAT(routed(routing, logs({1, 4, 2, 3}), 2).weights, ElementsAre(near(1.0), near(0.75)));
}

// Groups {8, 1}, {7, 6}, {2, 3}, {5, 4}: by their best the first two are picked, though 5 is better
// than 1.
TEST(Route, PicksFromTheGroupsWithTheBestExperts) {
  ExpertRouting routing;
  routing.method = "group_limited_greedy";
  routing.groups = 4;
  routing.picked_groups = 2;
  const Routed to = routed(routing, logs({8, 1, 7, 6, 2, 3, 5, 4}), 4);
  EXPECT_THAT(to.experts, ElementsAre(0, 2, 3, 1));
  EXPECT_THAT(to.weights, ElementsAre(near(8 / 36.), near(7 / 36.), near(6 / 36.), near(1 / 36.)));
}

// With the bias the scores are {0.9, 0.1}, {0.6, 0.5}, {0.2, 0.3}: the second group's sum 1.1 beats
// the first one's 1.0, whose best expert is better. Weights are the sigmoids without the bias.
TEST(Route, BiasTakesPartInPickingOnly) {
  ExpertRouting routing;
  routing.scores = "sigmoid";
  routing.method = "noaux_tc";
  routing.normalize = true;
  routing.groups = 3;
  routing.picked_groups = 1;
  routing.scale = 2.0;
  const auto logits = logits_of({0.8, 0.2, 0.1, 0.4, 0.5, 0.5});
  const std::vector<float> bias = {0.1f, -0.1f, 0.5f, 0.1f, -0.3f, -0.2f};
  const Routed to = routed(routing, logits, 2, bias);
  EXPECT_THAT(to.experts, ElementsAre(2, 3));
  EXPECT_THAT(to.weights, ElementsAre(near(2 * 0.1 / 0.5), near(2 * 0.4 / 0.5)));
  routing.picked_groups = 3;
  EXPECT_THAT(routed(routing, logits, 2, bias).experts, ElementsAre(0, 2));
  routing.groups = routing.picked_groups = 1;
  EXPECT_THAT(routed(routing, logits, 3, bias).experts, ElementsAre(0, 2, 3));
}

// Biased scores may fall below zero: an expert outside the picked groups is no better for it.
TEST(Route, NeverLeavesThePickedGroups) {
  ExpertRouting routing;
  routing.scores = "sigmoid";
  routing.method = "noaux_tc";
  routing.groups = 2;
  routing.picked_groups = 1;
  const auto logits = logits_of({0.5, 0.5, 0.5, 0.5});
  EXPECT_THAT(routed(routing, logits, 2, {-0.7f, -0.8f, -0.9f, -0.9f}).experts, ElementsAre(0, 1));
}

TEST(Route, TakesTheLowestOfEquals) {
  EXPECT_THAT(routed({}, {1, 1, 1, 1, 1}, 3).experts, ElementsAre(0, 1, 2));
  ExpertRouting routing;
  routing.groups = 4;
  routing.picked_groups = 2;
  EXPECT_THAT(routed(routing, std::vector<float>(8, 0.5f), 3).experts, ElementsAre(0, 1, 2));
}

TEST(Route, TakesEveryExpertWhereAllAreWanted) {
  const Routed to = routed({}, logs({1, 3, 2}), 3);
  EXPECT_THAT(to.experts, ElementsAre(1, 2, 0));
  EXPECT_THAT(to.weights, ElementsAre(near(3 / 6.), near(2 / 6.), near(1 / 6.)));
}

// Whatever stands in the logits, slots get experts that exist, each once.
TEST(Route, SurvivesWhatIsNoNumber) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  for (const std::vector<float>& logits : {std::vector<float>{nan, nan, nan, nan},
                                           {nan, 1, nan, 2},
                                           {infinity, -infinity, 0, infinity}}) {
    for (const char* scores : {"softmax", "sigmoid"}) {
      ExpertRouting routing;
      routing.scores = scores;
      routing.groups = 2;
      routing.picked_groups = 1;
      const Routed to = routed(routing, logits, 2);
      EXPECT_NE(to.experts[0], to.experts[1]);
      for (const std::int32_t expert : to.experts) EXPECT_TRUE(expert >= 0 && expert < 4);
    }
  }
  ExpertRouting sigmoid;
  sigmoid.scores = "sigmoid";
  EXPECT_THAT(routed(sigmoid, {nan, 1, nan, 2}, 2).experts, ElementsAre(3, 1));
}

TEST(CheckRouting, NamesWhatDoesNotFit) {
  ModelConfig good;
  good.experts = 16;
  good.experts_per_token = 4;
  good.routing = {.scores = "sigmoid", .method = "noaux_tc", .groups = 4, .picked_groups = 2};
  EXPECT_NO_THROW(check_routing(good));
  const auto refused = [&](ErrorId id, const std::string& words, auto change) {
    ModelConfig bad = good;
    change(bad);
    try {
      check_routing(bad);
      ADD_FAILURE() << words;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), id);
      EXPECT_NE(error.message().find(words), std::string::npos) << error.message();
    }
  };
  using C = ModelConfig;
  const ErrorId mismatch = errors::kModelConfigMismatch,
                not_served = errors::kModelFeatureNotServed;
  refused(mismatch, "experts is 0", [](C& c) { c.experts = 0; });
  refused(mismatch, "experts per token is 17, of 16 experts",
          [](C& c) { c.experts_per_token = 17; });
  refused(mismatch, "experts per token is 0", [](C& c) { c.experts_per_token = 0; });
  refused(mismatch, "do not stand in 5 groups", [](C& c) { c.routing.groups = 5; });
  refused(mismatch, "5 of 4 groups", [](C& c) { c.routing.picked_groups = 5; });
  refused(mismatch, "9 experts per token do not stand in 2 groups of 4",
          [](C& c) { c.experts_per_token = 9; });
  refused(not_served, "expert scores by 'sqrtsoftplus'",
          [](C& c) { c.routing.scores = "sqrtsoftplus"; });
  refused(not_served, "expert choice by 'lottery'", [](C& c) { c.routing.method = "lottery"; });
}

}  // namespace
}  // namespace quern::model
