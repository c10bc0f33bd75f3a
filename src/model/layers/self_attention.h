// Attention over the tokens before, with heads of their own for keys and values (MHA, GQA, MQA):
// projections, rope, the backend, the output projection.
#pragma once

#include "model/layers/layer.h"

namespace quern::model {

struct SelfAttentionFeatures {
  bool biases = false;     // of q, k and v
  bool head_norm = false;  // an RMS norm over each head of q and k, before the rotation
};

// Throws: kModelFeatureNotServed, kModelConfigMismatch.
void check_self_attention(const ModelConfig& config);

// Throws: as WeightLoader's.
std::unique_ptr<Attention> load_self_attention(const LayerLoader& layer,
                                               const SelfAttentionFeatures& features);

}  // namespace quern::model
