#include "engine/logit_edits.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace quern::engine {
namespace {

constexpr float kLargest = 1e30f;  // edits never make an infinity, which would count as a fault

void change(float* logit, float value) {
  if (std::isfinite(*logit)) *logit = std::clamp(value, -kLargest, kLargest);
}

}  // namespace

LogitEdits::LogitEdits(const SamplingParams& sampling, std::span<const std::int32_t> prompt,
                       std::span<const std::int32_t> ends)
    : penalties_(sampling.repetition_penalty != 1 || sampling.frequency_penalty != 0 ||
                 sampling.presence_penalty != 0),
      repetition_(static_cast<float>(sampling.repetition_penalty)),
      frequency_(static_cast<float>(sampling.frequency_penalty)),
      presence_(static_cast<float>(sampling.presence_penalty)),
      min_tokens_(sampling.min_tokens),
      bias_(sampling.logit_bias) {
  if (repetition_ != 1) seen_.insert(prompt.begin(), prompt.end());
  if (min_tokens_ == 0) return;
  if (!sampling.ignore_eos) ends_.assign(ends.begin(), ends.end());
  ends_.insert(ends_.end(), sampling.stop_token_ids.begin(), sampling.stop_token_ids.end());
}

std::span<const float> LogitEdits::apply(std::span<const float> row,
                                         std::vector<float>* scratch) const {
  scratch->assign(row.begin(), row.end());
  const auto at = [&](std::int32_t id) -> float* {
    return id >= 0 && static_cast<std::size_t>(id) < row.size()
               ? &(*scratch)[static_cast<std::size_t>(id)]
               : nullptr;
  };
  for (const std::int32_t id : seen_) {
    if (float* logit = at(id))
      change(logit, *logit > 0 ? *logit / repetition_ : *logit * repetition_);
  }
  for (const auto& [id, count] : counts_) {
    if (float* logit = at(id)) {
      change(logit, *logit - frequency_ * static_cast<float>(count) - presence_);
    }
  }
  for (const auto& [id, bias] : bias_) {
    if (float* logit = at(id)) change(logit, *logit + bias);
  }
  if (drawn_ < min_tokens_) {
    for (const std::int32_t id : ends_) {
      if (float* logit = at(id); logit && std::isfinite(*logit)) {
        *logit = -std::numeric_limits<float>::infinity();
      }
    }
  }
  return *scratch;
}

void LogitEdits::note(std::int32_t token) {
  ++drawn_;
  if (!penalties_) return;
  ++counts_[token];
  if (repetition_ != 1) seen_.insert(token);
}

}  // namespace quern::engine
