// Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): what is cached of a token is one
// latent row and one rotated key, which all heads share. The layer makes the queries that the
// backend wants for each sequence: absorbed ones, brought into the latent space head by head, or
// plain ones, for which it expands cached rows when the backend asks.
#pragma once

#include "model/layers/layer.h"

namespace quern::model {

// Throws: kModelFeatureNotServed, kModelConfigMismatch.
void check_mla(const ModelConfig& config);

// `only_absorbed`: one way for every sequence (attention/mla.h). Throws: as WeightLoader's.
std::unique_ptr<Attention> load_mla(const LayerLoader& layer, bool only_absorbed);

}  // namespace quern::model
