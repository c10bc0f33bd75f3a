// Rotary position embedding (RoFormer): the frequencies of a model, the angles of a batch, and the
// rotation of queries and keys in place.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/model_config.h"

namespace quern::model {

class Rope {
 public:
  // `factors` [rope_dim/2] divides each frequency (GGUF's rope_freqs.weight); empty: none.
  // Throws: kModelFeatureNotServed for a scaling other than none, default, linear, llama3 and yarn.
  Rope(const ModelConfig& config, std::span<const float> factors);

  // Throws: as the constructor; for checks before weights are read.
  static void check(const ModelConfig& config);

  // Computes the angles of a batch's positions; once a step.
  void plan(std::span<const std::int32_t> positions);

  // Rotates token `token`'s heads in x [heads, head_dim].
  void rotate(std::int64_t token, float* x, std::int64_t heads, std::int64_t head_dim) const;

 private:
  bool interleaved_;
  float attention_factor_;            // of cosines and sines
  std::vector<float> frequencies_;    // [rope_dim/2]
  std::vector<float> cosine_, sine_;  // [tokens, rope_dim/2]
};

// What the scaling multiplies the scores of latent attention with, beside 1/√dim: the squared
// mscale of all dims in YaRN, as DeepSeek's models have it; else 1.
double latent_score_factor(const RopeScaling& scaling);

}  // namespace quern::model
