// The gated feed-forward: out = down(silu(gate(x)) · up(x)).
#pragma once

#include "model/layers/layer.h"

namespace quern::model {

struct MlpNames {
  TensorName gate = {"mlp.gate_proj.weight", "ffn_gate.weight"};
  TensorName up = {"mlp.up_proj.weight", "ffn_up.weight"};
  TensorName down = {"mlp.down_proj.weight", "ffn_down.weight"};
};

// Of `inter` values inside. Throws: as WeightLoader's.
std::unique_ptr<FeedForward> load_mlp(const LayerLoader& layer, std::int64_t inter,
                                      const MlpNames& names = {});

}  // namespace quern::model
