#include "model/layers/rope.h"

#include <cmath>
#include <iterator>
#include <numbers>

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

}  // namespace

void Rope::check(const ModelConfig& config) {
  const RopeScaling& scaling = config.rope_scaling;
  const bool plain = scaling.type == "none" || scaling.type == "default";
  if (!plain && scaling.type != "linear" && scaling.type != "llama3") {
    throw Error(errors::kModelFeatureNotServed, {{"architecture", config.architecture},
                                                 {"feature", "rope scaling '" + scaling.type + "'"},
                                                 {"origin", config.origin}});
  }
  const bool complete =
      plain ||
      (scaling.factor > 0 && (scaling.type == "linear" ||
                              (scaling.original_context_length > 0 && scaling.low_freq_factor > 0 &&
                               scaling.high_freq_factor > scaling.low_freq_factor)));
  if (!complete) {
    throw Error(errors::kModelConfigMismatch,
                {{"what", "rope scaling '" + scaling.type + "' lacks a factor or its bounds"},
                 {"origin", config.origin}});
  }
}

Rope::Rope(const ModelConfig& config, std::span<const float> factors)
    : interleaved_(config.rope_interleaved) {
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
      cosine_[t * pairs + i] = std::cos(angle);
      sine_[t * pairs + i] = std::sin(angle);
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
