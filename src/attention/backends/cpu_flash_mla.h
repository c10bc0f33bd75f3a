// Latent attention of cpu_flash. Absorbed: the heads of a token, or of several, are the lanes of a
// vector, and a latent row is read once for all of them. Keys are walked in blocks of 64 at
// absolute positions and merged in splits of 256, ascending, in prefill and in decode alike, so
// that a token's bits depend on nothing but its own sequence. Expanded sequences go to ExpandedMla.
#pragma once

#include <vector>

#include "attention/backend.h"
#include "attention/backends/cpu_flash_mla_expanded.h"
#include "kernels/aligned_buffer.h"
#include "kernels/ops.h"

namespace quern::attention {

class FlashMla {
 public:
  // Expanded keys over bf16 and fp8 pages are attended by `attend`, at most `rows` queries a call.
  FlashMla(ThreadPool& pool, kernels::Attend attend, int rows);

  // As AttentionBackend::forward_mla.
  void forward(const Batch& batch, const MlaLayer& layer, const MlaInputs& inputs,
               cache::KvStore& store);

 private:
  static constexpr std::int32_t kItemRows = 128;  // of one item: 8 groups share a block's rows

  // Query rows of a sequence against splits [split_begin, split_end) of its keys; row r is query
  // r / heads, head r % heads. Where a sequence is cut into several items, each of their splits
  // leaves a partial result, in groups from `partial` on, to be merged afterwards.
  struct Item {
    std::int32_t sequence, row, rows;
    std::int32_t split_begin, split_end;
    std::int64_t partial;  // −1: writes the output itself
  };
  // Rows whose partial results are to be merged: `splits` of them, `partial` the first.
  struct Merge {
    std::int32_t sequence, row, rows, splits;
    std::int64_t partial;
  };
  // Running softmax of groups of lanes: maximum and sum [groups, 16], out [groups, columns, 16].
  struct State {
    float *maximum, *sum, *out;
  };
  // What one thread works with.
  struct Scratch {
    kernels::AlignedBuffer q, rows;       // packed lanes; what the kernel needs
    kernels::AlignedBuffer split, total;  // a State each
    std::int32_t end[kItemRows] = {};     // [rows] one past the last visible key
  };

  void plan(const Batch& batch, const MlaLayer& layer);
  void reserve(const MlaLayer& layer);
  void run_item(const Batch& batch, const MlaLayer& layer, const MlaInputs& inputs,
                const Item& item, cache::KvStore& store, Scratch& scratch);
  static void pack_queries(const SequenceSlice& sequence, const MlaLayer& layer,
                           const MlaInputs& inputs, const Item& item, kernels::PackLanes pack,
                           Scratch& scratch);
  void attend_split(const SequenceSlice& sequence, const MlaLayer& layer, const Item& item,
                    std::int32_t split, const kernels::LatentKernel& kernel, cache::KvStore& store,
                    Scratch& scratch, const State& state) const;
  void merge_part(const Batch& batch, const MlaLayer& layer, const MlaInputs& inputs,
                  std::int64_t part);
  State state_in(const kernels::AlignedBuffer& buffer, std::int64_t groups, std::int64_t at) const;

  ThreadPool& pool_;
  const kernels::Ops& ops_;
  ExpandedMla expanded_;
  std::vector<Item> items_;
  std::vector<Merge> merges_;
  std::int64_t columns_ = 0;         // of a group's result
  std::int64_t partial_groups_ = 0;  // of all partial results
  std::int64_t merge_groups_ = 0;    // of the results that they become
  std::vector<Scratch> scratch_;     // of each thread
  kernels::AlignedBuffer partials_;  // a State of partial_groups_
};

}  // namespace quern::attention
