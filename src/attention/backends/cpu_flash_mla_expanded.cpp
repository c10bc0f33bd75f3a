#include "attention/backends/cpu_flash_mla_expanded.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/backends/latent_rows.h"

namespace quern::attention {
namespace {

using kernels::kKeyBlock;
using kernels::kKeySplit;
using kernels::kSlab;
using kernels::kTileRows;

constexpr float kLog2E = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;
constexpr std::int64_t kSlabs = kExpandRows / kSlab;  // of a chunk
constexpr std::int32_t kQueryChunk = 48;              // queries of one work item
static_assert(kExpandRows % kKeySplit == 0);

std::int64_t round_up(std::int64_t value) { return (value + 15) / 16 * 16; }

void grow(std::vector<float>& buffer, std::int64_t size) {
  if (buffer.size() < static_cast<size_t>(size)) buffer.resize(static_cast<size_t>(size));
}

}  // namespace

ExpandedMla::ExpandedMla(ThreadPool& pool, kernels::Attend attend, int rows)
    : pool_(pool),
      ops_(kernels::ops()),
      attend_(attend),
      rows_(rows),
      scratch_(static_cast<size_t>(pool.size())) {}

void ExpandedMla::forward(const SequenceSlice& sequence, const MlaLayer& layer,
                          const MlaInputs& inputs, cache::KvStore& store) {
  f32_ = store.layout().dtype == DType::kF32;
  reserve(sequence, layer);
  const std::int64_t queries = std::int64_t{sequence.query_len} * layer.heads;
  std::fill_n(maximum_.begin(), queries, -std::numeric_limits<float>::infinity());
  std::fill_n(sum_.begin(), queries, 0.0f);
  pack_queries(sequence, layer, inputs);
  const std::int32_t cached = sequence.kv_len - sequence.query_len;
  for (begin_ = 0; begin_ < sequence.kv_len; begin_ += kExpandRows) {
    keys_ = std::min(static_cast<std::int32_t>(kExpandRows), sequence.kv_len - begin_);
    expand(sequence, layer, inputs, store);
    // Queries before the chunk see nothing of it.
    const std::int32_t first = std::max(0, begin_ - cached);
    const std::int64_t parts = (sequence.query_len - first + kQueryChunk - 1) / kQueryChunk;
    pool_.for_each(layer.heads * parts, 1, [&](std::int64_t item, std::int64_t end, int thread) {
      for (; item < end; ++item) {
        const auto part = static_cast<std::int32_t>(item % parts);
        const std::int32_t from = first + part * kQueryChunk;
        const std::int32_t stop = std::min(sequence.query_len, from + kQueryChunk);
        for (std::int32_t query = from; query < stop; query += rows_) {
          attend_rows(sequence, item / parts, query, std::min(rows_, stop - query),
                      scratch_[static_cast<size_t>(thread)]);
        }
      }
    });
  }
  finish(sequence, layer, inputs);
}

void ExpandedMla::reserve(const SequenceSlice& sequence, const MlaLayer& layer) {
  key_stride_ = round_up(layer.qk_dim());
  value_stride_ = round_up(layer.v_head_dim);
  const std::int64_t bytes =
      layer.heads * kExpandRows * (key_stride_ + value_stride_) * (f32_ ? 4 : 2);
  if (slabs_.size() < bytes) slabs_ = kernels::AlignedBuffer(bytes);
  grow(latent_rows_, kExpandRows * layer.row_dim());
  grow(latents_, kExpandRows * layer.latent_dim);
  const std::int64_t queries = std::int64_t{sequence.query_len} * layer.heads;
  grow(maximum_, queries);
  grow(sum_, queries);
  grow(q_, queries * key_stride_);
  grow(out_, queries * value_stride_);
  for (Scratch& scratch : scratch_) {
    grow(scratch.keys, kSlab * key_stride_);
    grow(scratch.out, rows_ * value_stride_);
  }
}

std::byte* ExpandedMla::slab_at(std::int64_t head, std::int64_t slab, bool values) const {
  const std::int64_t element = f32_ ? 4 : 2;
  const std::int64_t keys = kExpandRows * key_stride_, both = keys + kExpandRows * value_stride_;
  const std::int64_t at = values ? keys + slab * kSlab * value_stride_ : slab * kSlab * key_stride_;
  return slabs_.data() + (head * both + at) * element;
}

// The chunk's rows through the model's matrices, and into slabs.
void ExpandedMla::expand(const SequenceSlice& sequence, const MlaLayer& layer,
                         const MlaInputs& inputs, cache::KvStore& store) {
  pool_.for_each(keys_, pool_.even_grain(keys_), [&](std::int64_t t, std::int64_t end, int) {
    float* rows = latent_rows_.data() + t * layer.row_dim();
    read_latent_rows(layer, sequence, begin_ + t, end - t, store, rows);
    for (; t < end; ++t, rows += layer.row_dim()) {
      std::copy_n(rows, layer.latent_dim, latents_.data() + t * layer.latent_dim);
    }
  });
  const ExpandedLatents expanded = (*inputs.expand)(latents_.data(), keys_);
  const std::int64_t slabs = (keys_ + kSlab - 1) / kSlab, count = layer.heads * slabs;
  pool_.for_each(count, pool_.even_grain(count), [&](std::int64_t i, std::int64_t end, int thread) {
    for (; i < end; ++i) {
      pack_slab(layer, expanded, i % layer.heads, i / layer.heads,
                scratch_[static_cast<size_t>(thread)]);
    }
  });
}

void ExpandedMla::pack_slab(const MlaLayer& layer, const ExpandedLatents& from, std::int64_t head,
                            std::int64_t slab, Scratch& scratch) {
  const std::int64_t first = slab * kSlab;
  const int tokens = static_cast<int>(std::min<std::int64_t>(kSlab, keys_ - first));
  for (int t = 0; t < tokens; ++t) {
    float* key = scratch.keys.data() + t * key_stride_;
    std::copy_n(from.k_nope + (first + t) * from.k_token_stride + head * from.k_head_stride,
                layer.nope_dim, key);
    std::copy_n(latent_rows_.data() + (first + t) * layer.row_dim() + layer.latent_dim,
                layer.rope_dim, key + layer.nope_dim);
    std::fill(key + layer.qk_dim(), key + key_stride_, 0.0f);
  }
  const float* values = from.v + first * from.v_token_stride + head * from.v_head_stride;
  (f32_ ? ops_.pack_keys_f32 : ops_.pack_keys_bf16)(scratch.keys.data(), key_stride_, tokens,
                                                    key_stride_, 1.0f, slab_at(head, slab, false));
  if (!f32_) {
    ops_.pack_values_bf16(values, from.v_token_stride, tokens, layer.v_head_dim, value_stride_,
                          slab_at(head, slab, true));
    return;
  }
  auto* to = reinterpret_cast<float*>(slab_at(head, slab, true));
  std::fill_n(to, kSlab * value_stride_, 0.0f);
  for (int t = 0; t < tokens; ++t) {
    std::copy_n(values + t * from.v_token_stride, layer.v_head_dim, to + t * value_stride_);
  }
}

// Each head's queries one behind the other, scaled once for all chunks.
void ExpandedMla::pack_queries(const SequenceSlice& sequence, const MlaLayer& layer,
                               const MlaInputs& inputs) {
  const std::int64_t count = std::int64_t{sequence.query_len} * layer.heads;
  pool_.for_each(count, pool_.even_grain(count), [&](std::int64_t item, std::int64_t end, int) {
    for (; item < end; ++item) {
      const std::int64_t query = item / layer.heads, head = item % layer.heads;
      const std::int64_t row = std::int64_t{sequence.query_begin} * layer.heads + item;
      const float* from = inputs.q + row * layer.qk_dim();
      float* to = q_.data() + (head * sequence.query_len + query) * key_stride_;
      for (std::int32_t d = 0; d < layer.qk_dim(); ++d) to[d] = from[d] * layer.scale * kLog2E;
      std::fill(to + layer.qk_dim(), to + key_stride_, 0.0f);
    }
  });
}

// Queries [query, query + count) of one head against the chunk.
void ExpandedMla::attend_rows(const SequenceSlice& sequence, std::int64_t head, std::int32_t query,
                              int count, Scratch& scratch) {
  const std::int64_t state = head * sequence.query_len + query;
  std::int32_t end[kTileRows];  // one past the last visible key, from the chunk's begin
  for (int r = 0; r < count; ++r) {
    end[r] = sequence.kv_len - sequence.query_len + query + r + 1 - begin_;
  }
  const std::int32_t visible = std::min(keys_, end[count - 1]);
  for (std::int32_t split = 0; split < visible; split += kKeySplit) {
    float maximum[kTileRows], sum[kTileRows] = {};
    std::fill(std::begin(maximum), std::end(maximum), -std::numeric_limits<float>::infinity());
    std::fill_n(scratch.out.begin(), count * value_stride_, 0.0f);
    for (std::int32_t key = split; key < std::min(visible, split + kKeySplit); key += kKeyBlock) {
      std::int32_t first[kTileRows] = {}, last[kTileRows];
      for (int r = 0; r < count; ++r) last[r] = std::min(kKeyBlock, end[r] - key);
      kernels::AttendArgs args{.keys = {},
                               .values = {},
                               .next_keys = {},
                               .next_values = {},
                               .slabs = 0,
                               .key_stride = key_stride_,
                               .value_stride = value_stride_,
                               .q = q_.data() + state * key_stride_,
                               .first = first,
                               .last = last,
                               .soft_cap = 0,
                               .maximum = maximum,
                               .sum = sum,
                               .out = scratch.out.data()};
      for (std::int32_t t = key; t < std::min(keys_, key + kKeyBlock); t += kSlab, ++args.slabs) {
        args.keys[args.slabs] = slab_at(head, t / kSlab, false);
        args.values[args.slabs] = slab_at(head, t / kSlab, true);
      }
      (f32_ ? ops_.attend_f32 : attend_)(args, count);
    }
    for (int r = 0; r < count; ++r) {
      merge(state + r, maximum[r], sum[r], scratch.out.data() + r * value_stride_);
    }
  }
}

// A split in which the row saw no key changes nothing; the first one is taken as it is.
void ExpandedMla::merge(std::int64_t state, float maximum, float sum, const float* out) {
  if (sum == 0.0f) return;
  const auto i = static_cast<size_t>(state);
  float* mine = out_.data() + state * value_stride_;
  if (sum_[i] == 0.0f) {
    maximum_[i] = maximum;
    sum_[i] = sum;
    std::copy_n(out, value_stride_, mine);
    return;
  }
  ops_.merge(&maximum_[i], &sum_[i], mine, maximum, sum, out, value_stride_);
}

void ExpandedMla::finish(const SequenceSlice& sequence, const MlaLayer& layer,
                         const MlaInputs& inputs) {
  const std::int64_t count = std::int64_t{sequence.query_len} * layer.heads;
  pool_.for_each(count, pool_.even_grain(count), [&](std::int64_t item, std::int64_t end, int) {
    for (; item < end; ++item) {
      const std::int64_t query = item / layer.heads, head = item % layer.heads;
      const std::int64_t state = head * sequence.query_len + query;
      const auto i = static_cast<size_t>(state);
      const std::int64_t row = std::int64_t{sequence.query_begin} * layer.heads + item;
      const float factor = 1.0f / sum_[i];
      float* out = inputs.out + row * layer.v_head_dim;
      for (std::int32_t d = 0; d < layer.v_head_dim; ++d) {
        out[d] = out_[static_cast<size_t>(state * value_stride_ + d)] * factor;
      }
      if (inputs.lse) inputs.lse[row] = (maximum_[i] + std::log2(sum_[i])) * kLn2;
    }
  });
}

}  // namespace quern::attention
