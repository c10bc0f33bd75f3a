// The next token from a row of logits: greedy, or drawn after temperature, top-k, top-p and min-p,
// in that order (SGLang's). Draws come from a counter: the same seed and position give the same
// number whatever else runs. The engine's thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "quern/types.h"

namespace quern::engine {

class Sampler {
 public:
  // Throws: kSamplingParamInvalid. Any thread; for requests before they are queued.
  static void check(const SamplingParams& params);

  // `position` is the place of the token to come in its sequence. Equal logits: the lowest id wins.
  // Nullopt where a logit is NaN or +infinity, or all are −infinity.
  std::optional<std::int32_t> sample(std::span<const float> logits, const SamplingParams& params,
                                     std::uint64_t seed, std::uint64_t position);

 private:
  struct Candidate {
    float weight;  // exp((logit − max) / temperature)
    std::int32_t id;
  };
  // Reused from step to step.
  std::vector<float> weights_;  // [vocab]
  std::vector<Candidate> candidates_;
};

// The number in [0, 1) at a place of the stream of `seed` (SplitMix64 over seed and counter).
double counter_uniform(std::uint64_t seed, std::uint64_t counter);

}  // namespace quern::engine
