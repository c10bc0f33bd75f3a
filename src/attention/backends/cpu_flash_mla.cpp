#include "attention/backends/cpu_flash_mla.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "attention/backends/latent_rows.h"

namespace quern::attention {
namespace {

using kernels::kKeyBlock;
using kernels::kLanes;
using kernels::kLatentSplit;

constexpr float kLog2E = 1.44269504088896340736f, kLn2 = 0.69314718055994530942f;
constexpr std::int32_t kItemRows = 128;      // of one item: 8 groups share a block's rows
constexpr std::int64_t kMergeColumns = 128;  // that one thread merges at a time

std::int64_t groups_of(std::int64_t rows) { return (rows + kLanes - 1) / kLanes; }

kernels::LatentType latent_type(DType dtype) {
  switch (dtype) {
    case DType::kF32: return kernels::LatentType::kF32;
    case DType::kF8E4M3: return kernels::LatentType::kF8E4M3;
    default: return kernels::LatentType::kBF16;
  }
}

// Where tokens [begin, begin + n) of a sequence stand.
void place_rows(const MlaLayer& layer, const SequenceSlice& sequence, std::int32_t begin, int n,
                cache::KvStore& store, const void** rows) {
  const cache::KvLayout& layout = store.layout();
  const std::int64_t row_bytes = layout.key_stride * layout.element_bytes();
  std::int32_t page = begin / layout.page_size, slot = begin % layout.page_size;
  for (int t = 0; t < n; ++page, slot = 0) {
    const std::byte* row =
        store.record(layer.layer, sequence.pages[static_cast<size_t>(page)], 0) + slot * row_bytes;
    for (; slot < layout.page_size && t < n; ++slot, ++t, row += row_bytes) rows[t] = row;
  }
}

// Columns [begin, end) of a group's result, divided by its lanes' sums, to those lanes' rows of
// out [rows, dim].
void write_columns(const float* result, const float* sum, std::int64_t begin, std::int64_t end,
                   int lanes, std::int64_t dim, float* out) {
  float factor[kLanes];
  for (int lane = 0; lane < kLanes; ++lane) factor[lane] = lane < lanes ? 1.0f / sum[lane] : 0.0f;
  constexpr std::int64_t kTile = 16;
  for (std::int64_t c = begin; c < end; c += kTile) {
    float tile[kTile][kLanes];
    const std::int64_t count = std::min(kTile, end - c);
    for (std::int64_t i = 0; i < count; ++i) {
      const float* from = result + (c + i) * kLanes;
      for (int lane = 0; lane < kLanes; ++lane) tile[i][lane] = from[lane] * factor[lane];
    }
    for (int lane = 0; lane < lanes; ++lane) {
      float* to = out + lane * dim + c;
      for (std::int64_t i = 0; i < count; ++i) to[i] = tile[i][lane];
    }
  }
}

void write_lse(const float* maximum, const float* sum, int lanes, float* lse) {
  if (lse == nullptr) return;
  for (int lane = 0; lane < lanes; ++lane) {
    lse[lane] = (maximum[lane] + std::log2(sum[lane])) * kLn2;
  }
}

}  // namespace

FlashMla::FlashMla(ThreadPool& pool, kernels::Attend attend, int rows)
    : pool_(pool),
      ops_(kernels::ops()),
      expanded_(pool, attend, rows),
      scratch_(static_cast<size_t>(pool.size())) {}

FlashMla::State FlashMla::state_in(const kernels::AlignedBuffer& buffer, std::int64_t groups,
                                   std::int64_t at) const {
  auto* base = reinterpret_cast<float*>(buffer.data());
  return {base + at * kLanes, base + (groups + at) * kLanes,
          base + (2 * groups + at * columns_) * kLanes};
}

void FlashMla::plan(const Batch& batch, const MlaLayer& layer) {
  items_.clear();
  merges_.clear();
  partial_groups_ = merge_groups_ = 0;
  const auto tiles_of = [&](const SequenceSlice& sequence) {
    return (sequence.query_len * layer.heads + kItemRows - 1) / kItemRows;
  };
  const auto splits_of = [](const SequenceSlice& sequence) {
    return (sequence.kv_len + kLatentSplit - 1) / kLatentSplit;
  };
  std::int64_t work = 0;
  for (const SequenceSlice& sequence : batch.sequences) {
    if (runs_expanded(layer, sequence)) continue;
    work += std::int64_t{tiles_of(sequence)} * splits_of(sequence);
  }
  // Long contexts are cut into runs of splits, so that each thread gets a few items; a run fetches
  // its next rows while it computes.
  const auto run = static_cast<std::int32_t>(
      std::clamp<std::int64_t>(work / (4 * pool_.size()), 1, std::numeric_limits<int>::max() / 2));
  for (size_t s = 0; s < batch.sequences.size(); ++s) {
    const SequenceSlice& sequence = batch.sequences[s];
    if (runs_expanded(layer, sequence)) continue;
    const auto index = static_cast<std::int32_t>(s);
    const std::int32_t rows = sequence.query_len * layer.heads, splits = splits_of(sequence);
    // The last rows see the most keys: they go first, so that no thread ends late.
    for (std::int32_t tile = tiles_of(sequence) - 1; tile >= 0; --tile) {
      const std::int32_t row = tile * kItemRows, count = std::min(kItemRows, rows - row);
      if (splits <= run || pool_.size() == 1) {
        items_.push_back({index, row, count, 0, splits, -1});
        continue;
      }
      merges_.push_back({index, row, count, splits, partial_groups_});
      merge_groups_ += groups_of(count);
      for (std::int32_t split = 0; split < splits; split += run) {
        const std::int32_t end = std::min(splits, split + run);
        items_.push_back({index, row, count, split, end, partial_groups_});
        partial_groups_ += (end - split) * groups_of(count);
      }
    }
  }
}

void FlashMla::reserve(const MlaLayer& layer) {
  const auto grow = [](kernels::AlignedBuffer& buffer, std::int64_t bytes) {
    // Contexts grow with every step: more than it takes, so that few steps allocate.
    if (buffer.size() < bytes) buffer = kernels::AlignedBuffer(bytes + bytes / 2);
  };
  columns_ = kernels::latent_columns(layer.latent_dim);
  const auto state_bytes = [&](std::int64_t groups) {
    return groups * (columns_ + 2) * kLanes * static_cast<std::int64_t>(sizeof(float));
  };
  std::int32_t rows = 0;
  for (const Item& item : items_) rows = std::max(rows, item.rows);
  for (Scratch& scratch : scratch_) {
    grow(scratch.q, groups_of(rows) * kernels::lane_bytes(layer.row_dim()));
    grow(scratch.rows, kernels::latent_scratch_bytes(layer.row_dim()));
    grow(scratch.split, state_bytes(groups_of(rows)));
    grow(scratch.total, state_bytes(groups_of(rows)));
  }
  grow(partials_, state_bytes(partial_groups_));
}

void FlashMla::forward(const Batch& batch, const MlaLayer& layer, const MlaInputs& inputs,
                       cache::KvStore& store) {
  store_latent_rows(layer, batch, inputs.row, store, pool_);
  plan(batch, layer);
  if (!items_.empty()) {
    reserve(layer);
    pool_.for_each(static_cast<std::int64_t>(items_.size()), 1,
                   [&](std::int64_t begin, std::int64_t end, int thread) {
                     for (std::int64_t i = begin; i < end; ++i) {
                       run_item(batch, layer, inputs, items_[static_cast<size_t>(i)], store,
                                scratch_[static_cast<size_t>(thread)]);
                     }
                   });
    const std::int64_t parts =
        merge_groups_ * ((layer.latent_dim + kMergeColumns - 1) / kMergeColumns);
    pool_.for_each(parts, 1, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t part = begin; part < end; ++part) merge_part(batch, layer, inputs, part);
    });
  }
  for (const SequenceSlice& sequence : batch.sequences) {
    if (runs_expanded(layer, sequence)) expanded_.forward(sequence, layer, inputs, store);
  }
}

// The rows of an item as lanes, and up to where each of them sees its sequence's keys.
void FlashMla::pack_queries(const SequenceSlice& sequence, const MlaLayer& layer,
                            const MlaInputs& inputs, const Item& item, kernels::PackLanes pack,
                            Scratch& scratch) {
  for (std::int32_t r = 0; r < item.rows; r += kLanes) {
    const std::int64_t row = std::int64_t{sequence.query_begin} * layer.heads + item.row + r;
    pack(inputs.q_absorbed + row * layer.row_dim(), layer.row_dim(),
         std::min(kLanes, item.rows - r), layer.row_dim(), layer.scale * kLog2E,
         scratch.q.data() + r / kLanes * kernels::lane_bytes(layer.row_dim()));
  }
  std::fill(std::begin(scratch.end), std::end(scratch.end), 0);
  for (std::int32_t r = 0; r < item.rows; ++r) {
    scratch.end[r] = sequence.kv_len - sequence.query_len + (item.row + r) / layer.heads + 1;
  }
}

// One split of an item's keys, from nothing to its partial result.
void FlashMla::attend_split(const SequenceSlice& sequence, const MlaLayer& layer, const Item& item,
                            std::int32_t split, const kernels::LatentKernel& kernel,
                            cache::KvStore& store, Scratch& scratch, const State& state) const {
  const std::int64_t groups = groups_of(item.rows);
  std::fill_n(state.maximum, groups * kLanes, -std::numeric_limits<float>::infinity());
  std::fill_n(state.sum, groups * kLanes, 0.0f);
  std::fill_n(state.out, groups * columns_ * kLanes, 0.0f);
  // What the item reads in all, and in this split.
  const std::int32_t stop = std::min(scratch.end[item.rows - 1], item.split_end * kLatentSplit);
  const std::int32_t split_end = std::min(stop, (split + 1) * kLatentSplit);
  std::int32_t last[kItemRows] = {};
  const void *rows[kKeyBlock], *next_rows[kKeyBlock];
  for (std::int32_t key = split * kLatentSplit; key < split_end; key += kKeyBlock) {
    const int keys = std::min(kKeyBlock, stop - key);
    place_rows(layer, sequence, key, keys, store, rows);
    const int next = std::clamp(stop - key - kKeyBlock, 0, kKeyBlock);
    if (next > 0) {
      place_rows(layer, sequence, key + kKeyBlock, next, store, next_rows);
      std::fill(next_rows + next, next_rows + kKeyBlock, next_rows[next - 1]);
    }
    for (std::int32_t r = 0; r < item.rows; ++r) last[r] = scratch.end[r] - key;
    kernel.attend({.rows = rows,
                   .next = next > 0 ? next_rows : nullptr,
                   .keys = keys,
                   .groups = static_cast<int>(groups),
                   .row_dim = layer.row_dim(),
                   .latent_dim = layer.latent_dim,
                   .q = scratch.q.data(),
                   .last = last,
                   .maximum = state.maximum,
                   .sum = state.sum,
                   .out = state.out,
                   .scratch = scratch.rows.data()});
  }
}

void FlashMla::run_item(const Batch& batch, const MlaLayer& layer, const MlaInputs& inputs,
                        const Item& item, cache::KvStore& store, Scratch& scratch) {
  const SequenceSlice& sequence = batch.sequences[static_cast<size_t>(item.sequence)];
  const auto type = static_cast<size_t>(latent_type(store.layout().dtype));
  const kernels::LatentKernel& kernel = ops_.latent[type];
  const std::int64_t groups = groups_of(item.rows);
  pack_queries(sequence, layer, inputs, item, kernel.pack, scratch);
  if (item.partial >= 0) {
    for (std::int32_t split = item.split_begin; split < item.split_end; ++split) {
      attend_split(
          sequence, layer, item, split, kernel, store, scratch,
          state_in(partials_, partial_groups_, item.partial + (split - item.split_begin) * groups));
    }
    return;
  }
  // The first split is the result so far; the others are merged into it.
  const State total = state_in(scratch.total, groups, 0), part = state_in(scratch.split, groups, 0);
  attend_split(sequence, layer, item, 0, kernel, store, scratch, total);
  for (std::int32_t split = 1; split * kLatentSplit < scratch.end[item.rows - 1]; ++split) {
    attend_split(sequence, layer, item, split, kernel, store, scratch, part);
    for (std::int64_t group = 0; group < groups; ++group) {
      ops_.merge_lanes(total.maximum + group * kLanes, total.sum + group * kLanes,
                       total.out + group * columns_ * kLanes, part.maximum + group * kLanes,
                       part.sum + group * kLanes, part.out + group * columns_ * kLanes, columns_);
    }
  }
  for (std::int32_t r = 0; r < item.rows; r += kLanes) {
    const std::int64_t row = std::int64_t{sequence.query_begin} * layer.heads + item.row + r;
    const int lanes = std::min(kLanes, item.rows - r);
    write_columns(total.out + r * columns_, total.sum + r, 0, layer.latent_dim, lanes,
                  layer.latent_dim, inputs.out_latent + row * layer.latent_dim);
    write_lse(total.maximum + r, total.sum + r, lanes, inputs.lse ? inputs.lse + row : nullptr);
  }
}

// Part `part` of the merges: some columns of one group.
void FlashMla::merge_part(const Batch& batch, const MlaLayer& layer, const MlaInputs& inputs,
                          std::int64_t part) {
  const std::int64_t chunks = (layer.latent_dim + kMergeColumns - 1) / kMergeColumns;
  const std::int64_t begin = part % chunks * kMergeColumns;
  const std::int64_t end = std::min<std::int64_t>(layer.latent_dim, begin + kMergeColumns);
  std::int64_t group = part / chunks;
  size_t index = 0;
  for (; group >= groups_of(merges_[index].rows); ++index) group -= groups_of(merges_[index].rows);
  const Merge& merge = merges_[index];
  const std::int64_t groups = groups_of(merge.rows);
  float maximum[kLanes], sum[kLanes];
  const State first = state_in(partials_, partial_groups_, merge.partial + group);
  std::copy_n(first.maximum, kLanes, maximum);
  std::copy_n(first.sum, kLanes, sum);
  for (std::int32_t split = 1; split < merge.splits; ++split) {
    const State other =
        state_in(partials_, partial_groups_, merge.partial + split * groups + group);
    ops_.merge_lanes(maximum, sum, first.out + begin * kLanes, other.maximum, other.sum,
                     other.out + begin * kLanes, end - begin);
  }
  const SequenceSlice& sequence = batch.sequences[static_cast<size_t>(merge.sequence)];
  const std::int64_t row =
      std::int64_t{sequence.query_begin} * layer.heads + merge.row + group * kLanes;
  const auto lanes = static_cast<int>(std::min<std::int64_t>(kLanes, merge.rows - group * kLanes));
  write_columns(first.out, sum, begin, end, lanes, layer.latent_dim,
                inputs.out_latent + row * layer.latent_dim);
  if (begin == 0) write_lse(maximum, sum, lanes, inputs.lse ? inputs.lse + row : nullptr);
}

}  // namespace quern::attention
