#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/error.h"
#include "base/errors/engine.h"
#include "kernels/ops.h"

namespace quern::engine {
namespace {

constexpr double kGreedyBelow = 1e-6;  // colder than this is greedy

std::uint64_t mix(std::uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

template <typename T>
void require(bool fine, std::string_view param, std::string_view expected, const T& actual) {
  if (fine) return;
  throw Error(errors::kSamplingParamInvalid,
              {{"param", param}, {"expected", expected}, {"actual", actual}});
}

}  // namespace

double counter_uniform(std::uint64_t seed, std::uint64_t counter) {
  return static_cast<double>(mix(mix(seed) ^ counter) >> 11) * 0x1p-53;
}

void Sampler::check(const SamplingParams& p) {
  require(std::isfinite(p.temperature) && p.temperature >= 0, "temperature", "0 or more",
          p.temperature);
  require(p.top_k >= -1, "top_k", "-1 or more", p.top_k);
  require(p.top_p > 0 && p.top_p <= 1, "top_p", "above 0 and at most 1", p.top_p);
  require(p.min_p >= 0 && p.min_p <= 1, "min_p", "from 0 to 1", p.min_p);
  require(p.max_tokens >= -1, "max_tokens", "0 or more", p.max_tokens);
  const auto within = [](double value) { return value >= -2 && value <= 2; };
  require(within(p.presence_penalty), "presence_penalty", "from -2 to 2", p.presence_penalty);
  require(within(p.frequency_penalty), "frequency_penalty", "from -2 to 2", p.frequency_penalty);
  require(p.repetition_penalty > 0 && p.repetition_penalty <= 2, "repetition_penalty",
          "above 0 and at most 2", p.repetition_penalty);
  require(p.min_tokens >= 0, "min_tokens", "0 or more", p.min_tokens);
  for (const auto& [id, bias] : p.logit_bias) {
    require(std::isfinite(bias), "logit_bias", "finite numbers", bias);
  }
  for (const std::string& stop : p.stop) {
    require(!stop.empty(), "stop", "a text that is not empty", "empty");
  }
}

std::optional<std::int32_t> Sampler::sample(std::span<const float> logits,
                                            const SamplingParams& params, std::uint64_t seed,
                                            std::uint64_t position) {
  const kernels::Ops& ops = kernels::ops();
  const auto vocab = static_cast<std::int64_t>(logits.size());
  const float most = ops.maximum(logits.data(), vocab);
  if (!std::isfinite(most)) return std::nullopt;
  const auto best = static_cast<std::int32_t>(std::ranges::find(logits, most) - logits.begin());
  if (params.temperature < kGreedyBelow || params.top_k == 1) return best;

  candidates_.clear();
  constexpr double kLog2E = 1.4426950408889634;
  weights_.resize(logits.size());
  ops.exponentials(logits.data(), most, static_cast<float>(kLog2E / params.temperature), vocab,
                   weights_.data());
  const float least = params.min_p > 0 ? static_cast<float>(params.min_p) : 0.0f;
  double total = 0;
  for (size_t i = 0; i < weights_.size(); ++i) {
    if (weights_[i] <= 0.0f) continue;
    total += weights_[i];
    candidates_.push_back({weights_[i], static_cast<std::int32_t>(i)});
  }
  const auto count = static_cast<std::int64_t>(candidates_.size());
  const std::int64_t top_k = params.top_k > 0 ? std::min(params.top_k, count) : count;
  if (top_k < count || params.top_p < 1.0) {
    // A heap gives the likeliest first without sorting the whole vocabulary.
    const auto less = [](const Candidate& a, const Candidate& b) {
      return a.weight != b.weight ? a.weight < b.weight : a.id > b.id;
    };
    auto begin = candidates_.begin(), end = candidates_.end();
    if (top_k < count) {
      std::nth_element(begin, begin + top_k - 1, end,
                       [&](const Candidate& a, const Candidate& b) { return less(b, a); });
      end = begin + top_k;
      total = 0;
      for (auto it = begin; it != end; ++it) total += it->weight;
    }
    std::make_heap(begin, end, less);
    double kept = 0;
    auto first_kept = end;
    while (begin != first_kept && kept < params.top_p * total) {
      std::pop_heap(begin, first_kept, less);
      kept += (--first_kept)->weight;
    }
    if (first_kept == end) return best;
    candidates_.erase(end, candidates_.end());
    candidates_.erase(candidates_.begin(), first_kept);
    std::reverse(candidates_.begin(), candidates_.end());
  }
  std::erase_if(candidates_, [&](const Candidate& c) { return c.weight < least; });
  total = 0;
  for (const Candidate& candidate : candidates_) total += candidate.weight;
  double left = counter_uniform(seed, position) * total;
  for (const Candidate& candidate : candidates_) {
    left -= candidate.weight;
    if (left < 0) return candidate.id;
  }
  return candidates_.back().id;
}

}  // namespace quern::engine
