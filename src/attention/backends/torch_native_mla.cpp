#include "attention/backends/torch_native_mla.h"

#include <algorithm>
#include <cmath>

#include "attention/backends/latent_rows.h"

namespace quern::attention {

// A chunk of keys and values, tokens [begin, begin + n) of the context; queries and results of its
// kind, absorbed or expanded.
struct NativeMla::Keys {
  std::int64_t begin, n;
  std::int64_t key_dim, v_dim;  // key_dim without the rotated part
  ExpandedLatents expanded;
  const float* rope;  // [n] rows, row_dim apart
  const float* q;     // [tokens, heads, key_dim + rope_dim]
  float* out;         // [tokens, heads, v_dim]
};

NativeMla::NativeMla(ThreadPool& pool)
    : pool_(pool),
      scores_(static_cast<size_t>(pool.size()), std::vector<float>(size_t{kExpandRows})) {}

void NativeMla::forward(const Batch& batch, const MlaLayer& layer, const MlaInputs& inputs,
                        cache::KvStore& store) {
  store_latent_rows(layer, batch, inputs.row, store, pool_);
  const auto grow = [](std::vector<float>& buffer, std::int64_t size) {
    if (buffer.size() < static_cast<size_t>(size)) buffer.resize(static_cast<size_t>(size));
  };
  grow(rows_, kExpandRows * layer.row_dim());
  grow(latents_, kExpandRows * layer.latent_dim);
  for (const SequenceSlice& sequence : batch.sequences) {
    grow(maximum_, std::int64_t{sequence.query_len} * layer.heads);
    grow(sum_, std::int64_t{sequence.query_len} * layer.heads);
    run_sequence(sequence, layer, inputs, store);
  }
}

void NativeMla::run_sequence(const SequenceSlice& sequence, const MlaLayer& layer,
                             const MlaInputs& inputs, cache::KvStore& store) {
  const bool expanded = runs_expanded(layer, sequence);
  const std::int64_t items = std::int64_t{sequence.query_len} * layer.heads;
  const std::int64_t first = std::int64_t{sequence.query_begin} * layer.heads;
  Keys keys{.begin = 0,
            .n = 0,
            .key_dim = expanded ? layer.nope_dim : layer.latent_dim,
            .v_dim = expanded ? layer.v_head_dim : layer.latent_dim,
            .expanded = {rows_.data(), rows_.data(), layer.row_dim(), 0, layer.row_dim(), 0},
            .rope = rows_.data() + layer.latent_dim,
            .q = expanded ? inputs.q : inputs.q_absorbed,
            .out = expanded ? inputs.out : inputs.out_latent};
  std::fill_n(maximum_.begin(), items, -INFINITY);
  std::fill_n(sum_.begin(), items, 0.0f);
  std::fill_n(keys.out + first * keys.v_dim, items * keys.v_dim, 0.0f);
  for (; keys.begin < sequence.kv_len; keys.begin += kExpandRows) {
    keys.n = std::min(kExpandRows, sequence.kv_len - keys.begin);
    read_latent_rows(layer, sequence, keys.begin, keys.n, store, rows_.data());
    if (expanded) {
      for (std::int64_t t = 0; t < keys.n; ++t) {
        std::copy_n(rows_.data() + t * layer.row_dim(), layer.latent_dim,
                    latents_.data() + t * layer.latent_dim);
      }
      keys.expanded = (*inputs.expand)(latents_.data(), keys.n);
    }
    pool_.for_each(items, pool_.even_grain(items),
                   [&](std::int64_t begin, std::int64_t end, int thread) {
                     for (std::int64_t item = begin; item < end; ++item) {
                       attend(keys, sequence, layer, item / layer.heads, item % layer.heads,
                              scores_[static_cast<size_t>(thread)]);
                     }
                   });
  }
  for (std::int64_t item = 0; item < items; ++item) {
    const auto i = static_cast<size_t>(item);
    float* out = keys.out + (first + item) * keys.v_dim;
    for (std::int64_t d = 0; d < keys.v_dim; ++d) out[d] /= sum_[i];
    if (inputs.lse) inputs.lse[first + item] = maximum_[i] + std::log(sum_[i]);
  }
}

// One query and head against those keys of the chunk that it sees, after the chunks before.
void NativeMla::attend(const Keys& keys, const SequenceSlice& sequence, const MlaLayer& layer,
                       std::int64_t query, std::int64_t head, std::vector<float>& scores) {
  const std::int64_t position = sequence.kv_len - sequence.query_len + query;
  const std::int64_t n = std::min(keys.n, position + 1 - keys.begin);
  if (n <= 0) return;
  const std::int64_t at = (sequence.query_begin + query) * layer.heads + head;
  const float* q = keys.q + at * (keys.key_dim + layer.rope_dim);
  const ExpandedLatents& from = keys.expanded;
  const auto state = static_cast<size_t>(query * layer.heads + head);
  float most = maximum_[state];
  for (std::int64_t t = 0; t < n; ++t) {
    const float* k = from.k_nope + t * from.k_token_stride + head * from.k_head_stride;
    const float* rope = keys.rope + t * layer.row_dim();
    float score = 0.0f;
    for (std::int64_t d = 0; d < keys.key_dim; ++d) score += q[d] * k[d];
    for (std::int64_t d = 0; d < layer.rope_dim; ++d) score += q[keys.key_dim + d] * rope[d];
    scores[static_cast<size_t>(t)] = score * layer.scale;
    most = std::max(most, score * layer.scale);
  }
  const float shrink = std::exp(maximum_[state] - most);
  float* out = keys.out + at * keys.v_dim;
  for (std::int64_t d = 0; d < keys.v_dim; ++d) out[d] *= shrink;
  float sum = sum_[state] * shrink;
  for (std::int64_t t = 0; t < n; ++t) {
    const float p = std::exp(scores[static_cast<size_t>(t)] - most);
    const float* v = from.v + t * from.v_token_stride + head * from.v_head_stride;
    for (std::int64_t d = 0; d < keys.v_dim; ++d) out[d] += p * v[d];
    sum += p;
  }
  maximum_[state] = most;
  sum_[state] = sum;
}

}  // namespace quern::attention
