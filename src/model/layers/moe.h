// Mixture of experts: a router sends each token to a few of many small gated feed-forwards, whose
// outputs are added with its weights. Shared experts, where there are some, see every token.
//
// Tokens are grouped by expert, so that an expert's weights are read once for all its tokens, and
// only those of experts that have one. The threads share out blocks of outputs of all experts
// together, so that one token keeps all of them busy too. A token's sum runs over its slots in the
// router's order, whatever else is in the batch.
#pragma once

#include "model/layers/layer.h"
#include "model/layers/mlp.h"

namespace quern::model {

struct MoeNames {
  TensorName router = {"mlp.gate.weight", "ffn_gate_inp.weight"};
  TensorName correction_bias = {"mlp.gate.e_score_correction_bias", "exp_probs_b.bias"};
  // In a Hugging Face folder one tensor for each expert, in GGUF one for all.
  TensorName gate = {"mlp.experts.{}.gate_proj.weight", "ffn_gate_exps.weight"};
  TensorName up = {"mlp.experts.{}.up_proj.weight", "ffn_up_exps.weight"};
  TensorName down = {"mlp.experts.{}.down_proj.weight", "ffn_down_exps.weight"};
  MlpNames shared = {.gate = {"mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight"},
                     .up = {"mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight"},
                     .down = {"mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight"}};
};

// Throws: kModelFeatureNotServed, kModelConfigMismatch.
void check_moe(const ModelConfig& config);

// Throws: as WeightLoader's.
std::unique_ptr<FeedForward> load_moe(const LayerLoader& layer, const MoeNames& names = {});

}  // namespace quern::model
