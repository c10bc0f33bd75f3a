// Measures a loaded model without the server: prefill and decode speed, perplexity of a
// text. Called by `quern bench`; nothing else may use the model meanwhile.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "engine/startup.h"

namespace quern::engine {

struct LatencyPlan {
  std::int64_t depth = 0;  // tokens in the cache before the measured prompt
  std::int64_t prefill = 512;
  std::int64_t decode = 128;
  std::int64_t batch = 1;                                           // equal sequences at once
  std::int64_t tokens() const { return depth + prefill + decode; }  // of one sequence
};

struct LatencyRun {
  double prefill_seconds = 0;  // of batch · prefill tokens, the first new token's logits included
  double decode_seconds = 0;   // of `decode` steps of `batch` tokens
};

// Requires: the cache holds batch · tokens() tokens (check_latency_plan).
LatencyRun measure_latency(LoadedModel& loaded, const LatencyPlan& plan);
// Throws: kInvalidFlagValue where the context or the cache is too small for the plan.
void check_latency_plan(const LoadedModel& loaded, const LatencyPlan& plan);

struct Perplexity {
  double perplexity = 0;
  std::int64_t tokens = 0;  // of the text; one fewer is predicted in each window of the context
};

// Teacher-forced over windows of the context length. Throws: kPerplexityTextTooShort for
// fewer than 2 tokens, kPerplexityNotFinite.
Perplexity measure_perplexity(LoadedModel& loaded, std::string_view text);

}  // namespace quern::engine
