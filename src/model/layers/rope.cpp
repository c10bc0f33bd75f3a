#include "model/layers/rope.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <numbers>
#include <string_view>

#include "base/error.h"
#include "base/errors/model.h"

namespace quern::model {
namespace {

// Llama 3.1's scaling: long wavelengths are stretched by the factor, short ones are kept, and those
// between the two bounds are blended.
double llama3_frequency(double frequency, const RopeScaling& scaling) {
  const double wavelength = 2 * std::numbers::pi / frequency;
  const double low = scaling.original_context_length / scaling.low_freq_factor;
  const double high = scaling.original_context_length / scaling.high_freq_factor;
  if (wavelength < high) return frequency;
  if (wavelength > low) return frequency / scaling.factor;
  const double blend = (scaling.original_context_length / wavelength - scaling.low_freq_factor) /
                       (scaling.high_freq_factor - scaling.low_freq_factor);
  return (1 - blend) * frequency / scaling.factor + blend * frequency;
}

// YaRN (arXiv 2309.00071): the pair, counted from 0, that turns `turns` times within the original
// context.
double yarn_pair(double turns, const ModelConfig& config) {
  const double length = config.rope_scaling.original_context_length;
  return static_cast<double>(config.rope_dim) * std::log(length / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(config.rope_theta));
}

// The frequency of pair `i`: kept up to the pair that turns beta_fast times, stretched from the one
// that turns beta_slow times on, blended between.
double yarn_frequency(double frequency, double i, const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  double low = yarn_pair(scaling.beta_fast, config), high = yarn_pair(scaling.beta_slow, config);
  if (scaling.truncate) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(config.rope_dim - 1));
  if (low == high) high += 0.001;
  const double stretched = std::clamp((i - low) / (high - low), 0.0, 1.0);
  return frequency * (1 - stretched) + frequency / scaling.factor * stretched;
}

double yarn_mscale(double factor, double mscale) {
  return factor <= 1 ? 1.0 : 0.1 * mscale * std::log(factor) + 1.0;
}

double attention_factor(const RopeScaling& scaling) {
  if (scaling.type != "yarn") return 1.0;
  if (scaling.attention_factor > 0) return scaling.attention_factor;
  if (scaling.mscale > 0 && scaling.mscale_all_dim > 0) {
    return yarn_mscale(scaling.factor, scaling.mscale) /
           yarn_mscale(scaling.factor, scaling.mscale_all_dim);
  }
  return yarn_mscale(scaling.factor, 1.0);
}

bool complete(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  if (scaling.type == "none" || scaling.type == "default") return true;
  if (scaling.factor <= 0) return false;
  if (scaling.type == "yarn") {
    return scaling.original_context_length > 0 && scaling.beta_fast > 0 && scaling.beta_slow > 0 &&
           config.rope_theta > 1;
  }
  return scaling.type == "linear" ||
         (scaling.original_context_length > 0 && scaling.low_freq_factor > 0 &&
          scaling.high_freq_factor > scaling.low_freq_factor);
}

}  // namespace

double latent_score_factor(const RopeScaling& scaling) {
  if (scaling.type != "yarn" || scaling.mscale_all_dim <= 0) return 1.0;
  const double mscale = yarn_mscale(scaling.factor, scaling.mscale_all_dim);
  return mscale * mscale;
}

void Rope::check(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  static constexpr std::string_view kServed[] = {"none", "default", "linear", "llama3", "yarn"};
  if (std::ranges::find(kServed, scaling.type) == std::end(kServed)) {
    throw Error(errors::kModelFeatureNotServed, {{"architecture", config.architecture},
                                                 {"feature", "rope scaling '" + scaling.type + "'"},
                                                 {"origin", config.origin}});
  }
  if (!complete(config)) {
    throw Error(errors::kModelConfigMismatch,
                {{"what", "rope scaling '" + scaling.type + "' lacks a factor or its bounds"},
                 {"origin", config.origin}});
  }
}

Rope::Rope(const ModelConfig& config, std::span<const float> factors)
    : interleaved_(config.rope_interleaved),
      attention_factor_(static_cast<float>(attention_factor(config.rope_scaling))) {
  check(config);
  const std::int64_t pairs = config.rope_dim / 2;
  if (!factors.empty() && std::ssize(factors) != pairs) {
    throw Error(errors::kTensorShapeWrong, {{"tensor", "rope_freqs.weight"},
                                            {"origin", config.origin},
                                            {"shape", fmt::format("[{}]", factors.size())},
                                            {"wanted", fmt::format("[{}]", pairs)}});
  }
  for (std::int64_t i = 0; i < pairs; ++i) {
    double frequency = std::pow(config.rope_theta,
                                -static_cast<double>(2 * i) / static_cast<double>(config.rope_dim));
    if (config.rope_scaling.type == "linear") frequency /= config.rope_scaling.factor;
    if (config.rope_scaling.type == "llama3") {
      frequency = llama3_frequency(frequency, config.rope_scaling);
    }
    if (config.rope_scaling.type == "yarn") {
      frequency = yarn_frequency(frequency, static_cast<double>(i), config);
    }
    if (!factors.empty()) frequency /= factors[static_cast<size_t>(i)];
    frequencies_.push_back(static_cast<float>(frequency));
  }
}

void Rope::plan(std::span<const std::int32_t> positions) {
  const size_t pairs = frequencies_.size();
  cosine_.resize(positions.size() * pairs);
  sine_.resize(positions.size() * pairs);
  for (size_t t = 0; t < positions.size(); ++t) {
    for (size_t i = 0; i < pairs; ++i) {
      const float angle = static_cast<float>(positions[t]) * frequencies_[i];
      cosine_[t * pairs + i] = std::cos(angle) * attention_factor_;
      sine_[t * pairs + i] = std::sin(angle) * attention_factor_;
    }
  }
}

void Rope::rotate(std::int64_t token, float* x, std::int64_t heads, std::int64_t head_dim) const {
  const size_t pairs = frequencies_.size();
  const float* cosine = cosine_.data() + static_cast<size_t>(token) * pairs;
  const float* sine = sine_.data() + static_cast<size_t>(token) * pairs;
  const size_t step = interleaved_ ? 2 : 1, other = interleaved_ ? 1 : pairs;
  for (std::int64_t head = 0; head < heads; ++head, x += head_dim) {
    for (size_t i = 0; i < pairs; ++i) {
      float& first = x[i * step];
      float& second = x[i * step + other];
      const float a = first, b = second;
      first = a * cosine[i] - b * sine[i];
      second = b * cosine[i] + a * sine[i];
    }
  }
}

}  // namespace quern::model
