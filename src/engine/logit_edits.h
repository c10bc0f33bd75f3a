// What a request changes in its logits before a token is drawn: penalties, bias, no end before
// min_tokens. One request's; the engine's thread.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "quern/types.h"

namespace quern::engine {

class LogitEdits {
 public:
  // `prompt` counts for the repetition penalty alone, `ends` are the model's end-of-sequence ids.
  // Ids at or past the vocabulary change nothing.
  LogitEdits(const SamplingParams& sampling, std::span<const std::int32_t> prompt,
             std::span<const std::int32_t> ends);

  // Whether there is nothing to change, now and later.
  bool none() const { return !penalties_ && bias_.empty() && min_tokens_ == 0; }

  // The row as it is to be sampled, in `scratch`. Order: repetition, frequency, presence, bias.
  std::span<const float> apply(std::span<const float> row, std::vector<float>* scratch) const;

  // A token was drawn.
  void note(std::int32_t token);

 private:
  bool penalties_;
  float repetition_, frequency_, presence_;
  std::int64_t min_tokens_, drawn_ = 0;
  std::vector<std::pair<std::int32_t, float>> bias_;
  std::vector<std::int32_t> ends_;                         // held back until min_tokens_
  std::unordered_map<std::int32_t, std::int32_t> counts_;  // of tokens that were drawn
  std::unordered_set<std::int32_t> seen_;  // prompt and drawn, where there is a repetition penalty
};

}  // namespace quern::engine
