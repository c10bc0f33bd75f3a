#include "model/layers/moe_router.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "model/layers/decoder.h"

namespace quern::model {
namespace {

constexpr std::int64_t kMaxGroups = 64;
constexpr float kWorst = -std::numeric_limits<float>::infinity();

float or_worst(float value) { return std::isnan(value) ? kWorst : value; }

void softmax(std::span<float> values) {
  const float most = *std::ranges::max_element(values);
  float sum = 0.0f;
  for (float& value : values) {
    value = std::exp(value - most);
    sum += value;
  }
  for (float& value : values) value /= sum;
}

void sigmoid(std::span<float> values) {
  for (float& value : values) value = 1.0f / (1.0f + std::exp(-value));
}

// The indices of the best values, the best first. `value_of(i)` is asked once for each i that
// `allowed(i)` lets in, of which there are enough.
template <typename Allowed, typename ValueOf>
void pick_best(std::int64_t count, Allowed allowed, ValueOf value_of,
               std::span<std::int32_t> picked, std::span<float> values) {
  size_t filled = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    if (!allowed(i)) continue;
    const float value = or_worst(value_of(i));
    if (filled == picked.size() && !(value > values[filled - 1])) continue;
    size_t at = filled < picked.size() ? filled++ : filled - 1;
    for (; at > 0 && value > values[at - 1]; --at) {
      picked[at] = picked[at - 1];
      values[at] = values[at - 1];
    }
    picked[at] = static_cast<std::int32_t>(i);
    values[at] = value;
  }
}

// What a group is worth: its best expert, or the sum of its best two where a bias takes part.
float worth_of_group(std::span<const float> scores, std::span<const float> bias, std::int64_t begin,
                     std::int64_t end) {
  float best = kWorst, second = kWorst;
  for (std::int64_t i = begin; i < end; ++i) {
    const auto e = static_cast<size_t>(i);
    const float value = or_worst(bias.empty() ? scores[e] : scores[e] + bias[e]);
    second = std::max(second, std::min(best, value));
    best = std::max(best, value);
  }
  return bias.empty() || end - begin < 2 ? best : best + second;
}

// One bit for each group whose experts may be picked.
std::uint64_t allowed_groups(const ExpertRouting& routing, std::span<const float> scores,
                             std::span<const float> bias) {
  if (routing.picked_groups >= routing.groups) return ~std::uint64_t{0};
  const std::int64_t size = std::ssize(scores) / routing.groups;
  std::array<std::int32_t, kMaxGroups> picked;
  std::array<float, kMaxGroups> worths;
  const auto count = static_cast<size_t>(routing.picked_groups);
  pick_best(
      routing.groups, [](std::int64_t) { return true; },
      [&](std::int64_t group) {
        return worth_of_group(scores, bias, group * size, (group + 1) * size);
      },
      std::span(picked).first(count), std::span(worths).first(count));
  std::uint64_t allowed = 0;
  for (size_t i = 0; i < count; ++i) allowed |= std::uint64_t{1} << picked[i];
  return allowed;
}

}  // namespace

void check_routing(const ModelConfig& config) {
  const ExpertRouting& routing = config.routing;
  if (routing.scores != "softmax" && routing.scores != "sigmoid") {
    feature_not_served(config, "expert scores by '" + routing.scores + "'");
  }
  if (routing.method != "greedy" && routing.method != "group_limited_greedy" &&
      routing.method != "noaux_tc") {
    feature_not_served(config, "expert choice by '" + routing.method + "'");
  }
  if (config.experts <= 0) config_mismatch(config, fmt::format("experts is {}", config.experts));
  if (config.experts_per_token <= 0 || config.experts_per_token > config.experts) {
    config_mismatch(config, fmt::format("experts per token is {}, of {} experts",
                                        config.experts_per_token, config.experts));
  }
  const std::int64_t groups = routing.groups, picked = routing.picked_groups;
  if (groups <= 0 || groups > kMaxGroups || config.experts % groups != 0) {
    config_mismatch(config, fmt::format("{} experts do not stand in {} groups of equal size",
                                        config.experts, groups));
  }
  if (picked <= 0 || picked > groups) {
    config_mismatch(config, fmt::format("{} of {} groups of experts are picked", picked, groups));
  }
  if (config.experts_per_token > picked * (config.experts / groups)) {
    config_mismatch(config, fmt::format("{} experts per token do not stand in {} groups of {}",
                                        config.experts_per_token, picked, config.experts / groups));
  }
}

void route(const ExpertRouting& routing, std::span<float> logits, std::span<const float> bias,
           std::span<std::int32_t> experts, std::span<float> weights) {
  if (routing.scores == "sigmoid") {
    sigmoid(logits);
  } else {
    softmax(logits);
  }
  const std::span<const float> scores = logits;
  const std::uint64_t allowed = allowed_groups(routing, scores, bias);
  const std::int64_t size = std::ssize(scores) / routing.groups;
  pick_best(
      std::ssize(scores), [&](std::int64_t e) { return (allowed >> (e / size) & 1) != 0; },
      [&](std::int64_t e) {
        const auto i = static_cast<size_t>(e);
        return bias.empty() ? scores[i] : scores[i] + bias[i];
      },
      experts, weights);
  float sum = 0.0f;
  for (size_t slot = 0; slot < experts.size(); ++slot) {
    weights[slot] = scores[static_cast<size_t>(experts[slot])];
    sum += weights[slot];
  }
  const auto scale = static_cast<float>(routing.scale);
  for (float& weight : weights) {
    if (routing.normalize) weight /= sum + 1e-20f;
    weight *= scale;
  }
}

}  // namespace quern::model
