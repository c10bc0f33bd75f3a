// YaRN against the frequencies and attention factors that transformers computes, at the positions
// of whole prompts; what has no such scaling or lacks a part of it is refused.
#include "model/layers/rope.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <string>

#include "base/error.h"
#include "base/errors/model.h"

namespace quern::model {
namespace {

struct Case {
  std::string name;
  double theta;
  RopeScaling scaling;
  std::array<float, 8> frequencies;  // by transformers, of 16 rotated dims
  double attention_factor;
  double score_factor;
};

RopeScaling yarn(double factor, double original, double mscale = 0, double mscale_all_dim = 0) {
  RopeScaling scaling;
  scaling.type = "yarn";
  scaling.factor = factor;
  scaling.original_context_length = original;
  scaling.mscale = mscale;
  scaling.mscale_all_dim = mscale_all_dim;
  return scaling;
}

RopeScaling with_attention_factor(RopeScaling scaling, double factor) {
  scaling.attention_factor = factor;
  return scaling;
}

RopeScaling untruncated(RopeScaling scaling) {
  scaling.truncate = false;
  return scaling;
}

RopeScaling with_betas(RopeScaling scaling, double fast, double slow) {
  scaling.beta_fast = fast;
  scaling.beta_slow = slow;
  return scaling;
}

constexpr std::array<float, 8> kFactor4 = {1.0f,          0.23717082f,   0.049999997f,
                                           0.0079056947f, 0.0024999999f, 0.00079056947f,
                                           0.00025f,      7.9056947e-05f};

double squared(double mscale, double factor) {
  const double value = 0.1 * mscale * std::log(factor) + 1;
  return value * value;
}

const Case kCases[] = {
    {"plain", 1e4, yarn(4, 128), kFactor4, 1.13862944, 1},
    {"explicit factor", 1e4, with_attention_factor(yarn(4, 128), 1.0), kFactor4, 1, 1},
    {"explicit factor before mscales", 1e4, with_attention_factor(yarn(4, 128, 1, 0.5), 0.75),
     kFactor4, 0.75, squared(0.5, 4)},
    {"equal mscales of 1", 1e4, yarn(4, 128, 1, 1), kFactor4, 1, squared(1, 4)},
    {"equal mscales of 0.707", 1e4, yarn(4, 128, 0.707, 0.707), kFactor4, 1, squared(0.707, 4)},
    {"unequal mscales",
     1e4,
     yarn(40, 64, 1, 0.5),
     {1.0f, 0.21345372f, 0.034999996f, 0.00079056947f, 0.00025f, 7.9056947e-05f, 2.5e-05f,
      7.9056945e-06f},
     1.15572199,
     squared(0.5, 40)},
    {"mscale of all dims alone",
     1e4,
     yarn(40, 4096, 0, 0.5),
     {1.0f, 0.31622776f, 0.1f, 0.023914725f, 0.0051249997f, 0.00084986218f, 2.5e-05f,
      7.9056945e-06f},
     1.36888795,
     squared(0.5, 40)},
    {"untruncated",
     150000,
     untruncated(yarn(32, 4096)),
     {1.0f, 0.225418f, 0.05081328f, 0.0067949593f, 0.00045648392f, 1.8188337e-05f, 4.0999785e-06f,
      9.2420896e-07f},
     1.34657359,
     1},
    {"equal betas",
     50000,
     with_betas(yarn(32, 4096, 1, 1), 1, 1),
     {1.0f, 0.25860015f, 0.066874027f, 0.017293634f, 0.004472136f, 3.6140467e-05f, 9.3459303e-06f,
      2.4168587e-06f},
     1,
     squared(1, 32)},
};

ModelConfig config_of(const Case& c, bool interleaved) {
  ModelConfig config;
  config.rope_dim = 16;
  config.rope_theta = c.theta;
  config.rope_scaling = c.scaling;
  config.rope_interleaved = interleaved;
  return config;
}

TEST(Yarn, TurnsAsTransformersDoes) {
  for (const Case& c : kCases) {
    for (const bool interleaved : {false, true}) {
      Rope rope(config_of(c, interleaved), {});
      const std::int32_t positions[] = {0, 1, 100, 400};
      rope.plan(positions);
      for (std::int64_t t = 0; t < 4; ++t) {
        std::array<float, 16> x{};  // the first of every pair is 1
        for (size_t i = 0; i < 8; ++i) x[interleaved ? 2 * i : i] = 1;
        rope.rotate(t, x.data(), 1, 16);
        for (size_t i = 0; i < 8; ++i) {
          const double angle = static_cast<double>(positions[t]) * c.frequencies[i];
          const float cosine = x[interleaved ? 2 * i : i],
                      sine = x[interleaved ? 2 * i + 1 : i + 8];
          EXPECT_NEAR(cosine, std::cos(angle) * c.attention_factor, 1e-4) << c.name << " " << i;
          EXPECT_NEAR(sine, std::sin(angle) * c.attention_factor, 1e-4) << c.name << " " << i;
        }
      }
    }
    EXPECT_NEAR(latent_score_factor(c.scaling), c.score_factor, 1e-12) << c.name;
  }
}

// The factor holds for the dims that are rotated, and the others are let be.
TEST(Yarn, LeavesTheOtherDimsOfAHead) {
  Rope rope(config_of(kCases[0], false), {});
  const std::int32_t positions[] = {7};
  rope.plan(positions);
  std::array<float, 40> x;
  x.fill(1);
  rope.rotate(0, x.data(), 2, 20);
  for (const size_t i : {16, 17, 18, 19, 36, 37, 38, 39}) EXPECT_EQ(x[i], 1) << i;
  EXPECT_NE(x[0], 1);
  EXPECT_EQ(x[0], x[20]);
}

TEST(Rope, ScoresAreScaledByYarnAlone) {
  RopeScaling scaling = yarn(4, 128, 1, 1);
  scaling.type = "linear";
  EXPECT_EQ(latent_score_factor(scaling), 1);
}

ErrorId refusal(const RopeScaling& scaling, double theta = 1e4) {
  Case c = kCases[0];
  c.scaling = scaling;
  c.theta = theta;
  try {
    Rope::check(config_of(c, false));
  } catch (const Error& error) {
    return error.id();
  }
  return {};
}

TEST(Rope, RefusesScalingsThatAreUnknownOrIncomplete) {
  for (const char* type : {"dynamic", "longrope", "nosuch", ""}) {
    RopeScaling scaling = yarn(4, 128);
    scaling.type = type;
    EXPECT_EQ(refusal(scaling), errors::kModelFeatureNotServed) << type;
  }
  EXPECT_EQ(refusal(yarn(4, 128)), ErrorId{});
  EXPECT_EQ(refusal(yarn(4, 0)), errors::kModelConfigMismatch);
  EXPECT_EQ(refusal(yarn(0, 128)), errors::kModelConfigMismatch);
  EXPECT_EQ(refusal(yarn(4, 128), 1.0), errors::kModelConfigMismatch);
  EXPECT_EQ(refusal(with_betas(yarn(4, 128), 32, 0)), errors::kModelConfigMismatch);
}

}  // namespace
}  // namespace quern::model
