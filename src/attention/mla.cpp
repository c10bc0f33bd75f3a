#include "attention/mla.h"

#include "attention/backend.h"

namespace quern::attention {

bool runs_expanded(const MlaLayer& layer, const SequenceSlice& sequence) {
  if (layer.only_absorbed) return false;
  const std::int64_t queries = sequence.query_len, context = sequence.kv_len;
  const std::int64_t pairs = queries * (context - queries) + queries * (queries + 1) / 2;
  // Multiply-adds of one head: of a query-key pair, and of a row or query through both halves of
  // the up-projection.
  const std::int64_t absorbed_pair = layer.row_dim() + layer.latent_dim;
  const std::int64_t expanded_pair = layer.qk_dim() + layer.v_head_dim;
  const std::int64_t projection =
      std::int64_t{layer.latent_dim} * (layer.nope_dim + layer.v_head_dim);
  const std::int64_t expanded = pairs * expanded_pair + context * projection;
  const std::int64_t absorbed = pairs * absorbed_pair + queries * projection;
  return 5 * expanded < 4 * absorbed;
}

void AttentionBackend::forward_mla(const MlaLayer& layer, const MlaInputs&, cache::KvStore&) {
  CHECK(false, info().name, layer.layer);  // validate() refuses MLA without kernels for it
}

}  // namespace quern::attention
