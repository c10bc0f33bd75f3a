// Multi-head latent attention: all heads share one row a token, a normed latent and a rotated key.
// A sequence runs absorbed (queries are brought into the latent space, every head attends over the
// rows as they lie) or expanded (the rows become keys and values of every head first). Both give
// the same result up to rounding; the model asks runs_expanded() which queries to make.
#pragma once

#include <cstdint>
#include <functional>

#include "core/batch.h"

namespace quern::attention {

// One layer's latent attention. A cached row is [latent_dim + rope_dim].
struct MlaLayer {
  std::int32_t layer = 0;  // which layer of the cache
  std::int32_t heads = 0;
  std::int32_t latent_dim = 0;  // kv_lora_rank
  std::int32_t rope_dim = 0;    // of the rotated part, which all heads share
  std::int32_t nope_dim = 0;    // of an expanded key's other part
  std::int32_t v_head_dim = 0;  // of an expanded value
  float scale = 1.0f;           // applied to q·k
  // --enable-deterministic-inference: one way for every sequence, so that its bits do not depend
  // on how its prompt was cut.
  bool only_absorbed = false;

  std::int32_t row_dim() const { return latent_dim + rope_dim; }
  std::int32_t qk_dim() const { return nope_dim + rope_dim; }  // of an expanded query or key
};

// Keys and values of all heads, where the model's matrices left them. Strides are in elements.
struct ExpandedLatents {
  const float* k_nope = nullptr;  // [n, heads, nope_dim]
  const float* v = nullptr;       // [n, heads, v_head_dim]
  std::int64_t k_token_stride = 0, k_head_stride = 0;
  std::int64_t v_token_stride = 0, v_head_stride = 0;
};
inline constexpr std::int64_t kExpandRows = 512;  // most rows of one call

// Multiplies latents [n, latent_dim] f32 with the matrices of the layer at hand. What it returns is
// the model's and holds until the next call. On the engine's thread, may use its pool.
using ExpandLatents = std::function<ExpandedLatents(const float* latents, std::int64_t n)>;

// Whether this sequence of a batch runs expanded: where that takes less time, by the operations of
// both ways. Counted are scores, weighted sums and what goes through the up-projections: of the
// absorbed way each new token's query and result, of the expanded one every row of the context,
// since what was expanded for an earlier chunk of the prompt is expanded again. An operation of the
// expanded way takes a quarter more time, by measurement: it also packs what it expands.
bool runs_expanded(const MlaLayer& layer, const SequenceSlice& sequence);

// What one layer hands to AttentionBackend::forward_mla. All f32; rows of a batch's tokens.
struct MlaInputs {
  const float* row = nullptr;         // [tokens, latent_dim + rope_dim], to be stored
  const float* q_absorbed = nullptr;  // [tokens, heads, latent_dim + rope_dim]; absorbed ones' rows
  const float* q = nullptr;  // [tokens, heads, nope_dim + rope_dim]; rows of expanded sequences
  const ExpandLatents* expand = nullptr;  // may be null where no sequence runs expanded
  float* out_latent = nullptr;            // [tokens, heads, latent_dim]; absorbed sequences' rows
  float* out = nullptr;                   // [tokens, heads, v_head_dim]; expanded sequences' rows
  float* lse = nullptr;  // [tokens, heads] natural log of Σ exp(score), or null where not wanted
};

}  // namespace quern::attention
