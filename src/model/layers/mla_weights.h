// The up-projection of latent attention, packed for both ways of running it. Used by mla.cpp.
#pragma once

#include "kernels/packed_matrix.h"
#include "model/layers/layer.h"

namespace quern::model {

struct LatentUpProjection {
  kernels::PackedMatrix keys;    // [heads·nope, latent] latent rows → keys
  kernels::PackedMatrix values;  // [heads·v, latent] the same for values; absorbed, head by head
  kernels::PackedMatrix absorb;  // [heads·latent, nope] queries → the latent space, head by head
};

// From kv_b_proj or attn_kv_b, both halves of a head one after the other, or from GGUF's attn_k_b
// (transposed there) and attn_v_b. Matrices that are the transpose of a quantised one are bf16, or
// f32 where everything is. Throws: as WeightLoader's.
LatentUpProjection load_latent_up_projection(const LayerLoader& layer);

}  // namespace quern::model
