// Compares a model with its golden outputs: logits at stored positions, greedy tokens.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "kernels/test_safetensors.h"
#include "model/test_runner.h"

namespace quern::model {

inline const std::string kModels = QUERN_TEST_DATA "/models/";

struct Differences {
  std::vector<float> logits;  // |ours − golden| at the stored positions, ascending
  int steps = 0, equal = 0, wide_unequal = 0;

  float largest() const { return logits.back(); }
  float percentile(size_t percent) const { return logits[logits.size() * percent / 100]; }
  float mean() const { return mean_of_lowest(100); }
  float mean_of_lowest(size_t percent) const {
    double sum = 0;
    const size_t count = logits.size() * percent / 100;
    for (size_t i = 0; i < count; ++i) sum += logits[i];
    return static_cast<float>(sum / static_cast<double>(count));
  }
};

// One golden prompt: logits at the stored positions, then the greedy continuation with every
// earlier token forced. `clear` is the margin from which a step must agree.
inline void compare(TestRunner& runner, const GoldenArrays& golden, const std::string& prompt,
                    float clear, Differences& out) {
  const auto ids = golden.as<std::int32_t>(prompt + ".ids");
  const auto positions = golden.as<std::int32_t>(prompt + ".positions");
  const auto expected = golden.floats(prompt + ".logits");
  const auto vocab = static_cast<size_t>(runner.vocab());
  auto logits = runner.append(ids, 0, 37);
  for (size_t i = 0; i < positions.size(); ++i) {
    for (size_t t = 0; t < vocab; ++t) {
      const float ours = logits[static_cast<size_t>(positions[i]) * vocab + t];
      out.logits.push_back(std::fabs(ours - expected[i * vocab + t]));
    }
  }
  const auto greedy = golden.as<std::int32_t>(prompt + ".greedy_ids");
  const auto margin = golden.floats(prompt + ".greedy_margin");
  std::vector<float> last(logits.end() - static_cast<std::ptrdiff_t>(vocab), logits.end());
  for (size_t step = 0; step < greedy.size(); ++step) {
    const auto best = std::max_element(last.begin(), last.end()) - last.begin();
    ++out.steps;
    if (best == greedy[step]) {
      ++out.equal;
    } else if (margin[step] > clear) {
      ++out.wide_unequal;
    }
    const std::int32_t token[] = {greedy[step]};
    last = runner.append(token, static_cast<std::int32_t>(ids.size() + step));
  }
}

inline Differences compare_all(TestRunner& runner, const GoldenArrays& golden,
                               const std::string& prefix, float clear) {
  Differences all;
  for (int p = 0; golden.has(prefix + "p" + std::to_string(p) + ".ids"); ++p) {
    compare(runner, golden, prefix + "p" + std::to_string(p), clear, all);
  }
  EXPECT_GE(all.steps, 96);
  std::sort(all.logits.begin(), all.logits.end());
  return all;
}

// Float32 against the golden: the logits to 2e-3, and every token whose margin is twice that.
inline void expect_exact(const Differences& all, const std::string& what) {
  EXPECT_LT(all.largest(), 2e-3f) << what;
  EXPECT_EQ(all.wide_unequal, 0) << what;
}

// Bfloat16 against the golden. TOLERANCES.md: what transformers itself differs by in bfloat16; mean
// below twice that, 99th percentile below three times, and greedy tokens wherever the margin
// exceeds that percentile (`clear` of the comparison).
struct Bfloat16Case {
  std::string name;
  float p99, mean;
};
inline void expect_within_tolerance(const Differences& all, const Bfloat16Case& c,
                                    const std::string& what) {
  EXPECT_LT(all.mean(), 2 * c.mean) << what;
  EXPECT_LT(all.percentile(99), 3 * c.p99) << what;
  EXPECT_EQ(all.wide_unequal, 0) << what;
}

}  // namespace quern::model
