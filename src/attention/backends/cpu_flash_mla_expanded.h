// Expanded latent attention of cpu_flash: a chunk of latent rows at a time becomes keys and values
// of every head, packed into slabs as pages hold them, and goes through the block kernels of plain
// attention; results of chunks are merged by their maxima and sums, in splits of 256 keys. Chunks
// begin at multiples of 512 tokens, whatever was cached before.
#pragma once

#include <vector>

#include "attention/backend.h"
#include "kernels/aligned_buffer.h"
#include "kernels/ops.h"

namespace quern::attention {

class ExpandedMla {
 public:
  ExpandedMla(ThreadPool& pool, kernels::Attend attend, int rows);

  // One sequence of a batch, whose new rows are stored.
  void forward(const SequenceSlice& sequence, const MlaLayer& layer, const MlaInputs& inputs,
               cache::KvStore& store);

 private:
  struct Scratch {
    std::vector<float> keys;  // [16, key_stride] of a slab's tokens
    std::vector<float> out;   // [rows, value_stride]
  };

  void reserve(const SequenceSlice& sequence, const MlaLayer& layer);
  void pack_queries(const SequenceSlice& sequence, const MlaLayer& layer, const MlaInputs& inputs);
  void expand(const SequenceSlice& sequence, const MlaLayer& layer, const MlaInputs& inputs,
              cache::KvStore& store);
  void pack_slab(const MlaLayer& layer, const ExpandedLatents& from, std::int64_t head,
                 std::int64_t slab, Scratch& scratch);
  void attend_rows(const SequenceSlice& sequence, std::int64_t head, std::int32_t query, int count,
                   Scratch& scratch);
  void merge(std::int64_t state, float maximum, float sum, const float* out);
  void finish(const SequenceSlice& sequence, const MlaLayer& layer, const MlaInputs& inputs);
  std::byte* slab_at(std::int64_t head, std::int64_t slab, bool values) const;

  ThreadPool& pool_;
  const kernels::Ops& ops_;
  const kernels::Attend attend_;
  const int rows_;  // of one call
  bool f32_ = false;
  std::int64_t key_stride_ = 0, value_stride_ = 0;
  std::int32_t begin_ = 0, keys_ = 0;         // of the chunk at hand
  kernels::AlignedBuffer slabs_;              // [heads, slabs] of keys, then of values
  std::vector<float> latent_rows_, latents_;  // [kExpandRows, row_dim] and [, latent_dim]
  std::vector<float> q_;                      // [heads, query_len, key_stride], scaled
  std::vector<float> maximum_, sum_;          // [heads, query_len]
  std::vector<float> out_;                    // [heads, query_len, value_stride]
  std::vector<Scratch> scratch_;              // of each thread
};

}  // namespace quern::attention
