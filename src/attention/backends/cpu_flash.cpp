#include "attention/backends/cpu_flash.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "attention/backends/cpu_flash_mla.h"
#include "attention/backends/infos.h"
#include "attention/backends/latent_rows.h"
#include "attention/backends/store_tokens.h"
#include "kernels/aligned_buffer.h"
#include "kernels/ops.h"

namespace quern::attention {
namespace {

using kernels::kAttendRows;
using kernels::kKeyBlock;
using kernels::kKeySplit;
using kernels::kSlab;
using kernels::kTileRows;
static_assert(kAttendRows <= kTileRows);

constexpr float kLog2E = 1.44269504088896340736f;
constexpr std::int32_t kQueryChunk = 16;  // queries of one prefill work item

// Running softmax of the rows of one call; out [rows, value_stride].
struct RowState {
  float maximum[kTileRows];
  float sum[kTileRows];
  std::vector<float> out;

  void reset() {
    std::fill(std::begin(maximum), std::end(maximum), -std::numeric_limits<float>::infinity());
    std::fill(std::begin(sum), std::end(sum), 0.0f);
    std::fill(out.begin(), out.end(), 0.0f);
  }
};

// What one thread works with.
struct Scratch {
  std::vector<float> q;         // [rows, key_stride]
  kernels::AlignedBuffer wide;  // [4] slabs of a block made bf16, keys then values, of 8-bit pages
  RowState split, total;
};

// Some queries of a sequence against splits [split_begin, split_end) of its keys. Where a lone
// query is cut into several items, each of their splits leaves a partial result, the first at
// `partial`, to be merged afterwards.
struct Item {
  std::int32_t sequence;
  std::int32_t query, queries;
  std::int32_t split_begin, split_end;
  std::int32_t partial;  // −1: writes the output itself
};

class CpuFlash final : public AttentionBackend {
 public:
  CpuFlash(ThreadPool& pool, const BackendInfo& info, kernels::Attend attend_bf16, int rows)
      : pool_(pool),
        info_(info),
        ops_(kernels::ops()),
        attend_bf16_(attend_bf16),
        rows_(rows),
        mla_(pool, attend_bf16, rows),
        scratch_(static_cast<size_t>(pool.size())) {}

  const BackendInfo& info() const override { return info_; }

  void plan(const Batch& batch) override {
    batch_ = &batch;
    items_.clear();
    partials_ = 0;
    for (size_t s = 0; s < batch.sequences.size(); ++s) {
      const SequenceSlice& sequence = batch.sequences[s];
      const auto index = static_cast<std::int32_t>(s);
      const std::int32_t splits = (sequence.kv_len + kKeySplit - 1) / kKeySplit;
      if (sequence.query_len == 1 && splits > 1) {
        // Runs of splits, so that each fetches the next one's pages while it computes.
        const std::int32_t run = std::max(1, splits / (2 * pool_.size()));
        for (std::int32_t split = 0; split < splits; split += run) {
          const std::int32_t end = std::min(splits, split + run);
          items_.push_back({index, 0, 1, split, end, partials_});
          partials_ += end - split;
        }
        continue;
      }
      // The last chunks see the most keys: they go first, so that no thread ends late.
      const std::int32_t chunks = (sequence.query_len + kQueryChunk - 1) / kQueryChunk;
      for (std::int32_t chunk = chunks - 1; chunk >= 0; --chunk) {
        const std::int32_t query = chunk * kQueryChunk;
        const std::int32_t count = std::min(kQueryChunk, sequence.query_len - query);
        items_.push_back({index, query, count, 0, splits, -1});
      }
    }
  }

  void forward(const AttentionLayer& layer, const float* q, const float* k, const float* v,
               cache::KvStore& store, float* out) override {
    reserve(layer, store.layout());
    store_tokens(layer, *batch_, k, v, store, pool_);
    const std::int64_t count = static_cast<std::int64_t>(items_.size()) * layer.kv_heads;
    pool_.for_each(count, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t i = begin; i < end; ++i) {
        run_item(layer, items_[static_cast<size_t>(i / layer.kv_heads)],
                 static_cast<std::int32_t>(i % layer.kv_heads), q, store,
                 scratch_[static_cast<size_t>(thread)], out);
      }
    });
    if (partials_ == 0) return;
    pool_.for_each(layer.heads, pool_.even_grain(layer.heads),
                   [&](std::int64_t begin, std::int64_t end, int) {
                     merge_heads(layer, store.layout(), begin, end, out);
                   });
  }

  void forward_mla(const MlaLayer& layer, const MlaInputs& inputs, cache::KvStore& store) override {
    mla_.forward(*batch_, layer, inputs, store);
  }

 private:
  void reserve(const AttentionLayer& layer, const cache::KvLayout& layout) {
    const auto grow = [](std::vector<float>& buffer, std::int64_t size) {
      if (buffer.size() < static_cast<size_t>(size)) buffer.resize(static_cast<size_t>(size));
    };
    for (Scratch& scratch : scratch_) {
      grow(scratch.q, std::int64_t{rows_} * layout.key_stride);
      grow(scratch.split.out, std::int64_t{rows_} * layout.value_stride);
      grow(scratch.total.out, std::int64_t{rows_} * layout.value_stride);
    }
    if (layout.element_bytes() == 1) {
      const std::int64_t bytes = 4 * slab_bytes(layout);
      for (Scratch& scratch : scratch_) {
        if (scratch.wide.size() < bytes) scratch.wide = kernels::AlignedBuffer(bytes);
      }
    }
    grow(partial_maximum_, std::int64_t{partials_} * layer.heads);
    grow(partial_sum_, std::int64_t{partials_} * layer.heads);
    grow(partial_out_, std::int64_t{partials_} * layer.heads * layout.value_stride);
  }

  void run_item(const AttentionLayer& layer, const Item& item, std::int32_t kv_head, const float* q,
                cache::KvStore& store, Scratch& scratch, float* out) {
    const std::int32_t group = layer.heads / layer.kv_heads, rows = item.queries * group;
    for (std::int32_t row = 0; row < rows; row += rows_) {
      run_rows(layer, item, kv_head, row, std::min(rows_, rows - row), q, store, scratch, out);
    }
  }

  // Rows [row, row + count) of an item; row r is query r / group, head r % group of the KV head.
  void run_rows(const AttentionLayer& layer, const Item& item, std::int32_t kv_head,
                std::int32_t row, int count, const float* q, cache::KvStore& store,
                Scratch& scratch, float* out) {
    const SequenceSlice& sequence = batch_->sequences[static_cast<size_t>(item.sequence)];
    const cache::KvLayout& layout = store.layout();
    const std::int32_t group = layer.heads / layer.kv_heads;
    const float factor = layer.scale * (layer.soft_cap > 0 ? 1.0f : kLog2E);
    std::int32_t begin[kTileRows], end[kTileRows], last_key = 0;
    for (int r = 0; r < count; ++r) {
      const std::int32_t query = item.query + (row + r) / group;
      const std::int32_t position = sequence.kv_len - sequence.query_len + query;
      end[r] = layer.causal ? position + 1 : sequence.kv_len;
      begin[r] = layer.window > 0 ? std::max(0, position + 1 - layer.window) : 0;
      last_key = std::max(last_key, end[r]);
      const std::int64_t head = kv_head * group + (row + r) % group;
      const float* from =
          q + ((std::int64_t{sequence.query_begin} + query) * layer.heads + head) * layer.head_dim;
      float* to = scratch.q.data() + std::int64_t{r} * layout.key_stride;
      for (std::int32_t d = 0; d < layer.head_dim; ++d) to[d] = from[d] * factor;
      std::fill(to + layer.head_dim, to + layout.key_stride, 0.0f);
    }
    scratch.total.reset();
    for (std::int32_t split = item.split_begin; split < item.split_end; ++split) {
      if (split * kKeySplit >= last_key) break;
      scratch.split.reset();
      for (std::int32_t key = split * kKeySplit; key < std::min(last_key, (split + 1) * kKeySplit);
           key += kKeyBlock) {
        attend_block(layer, item, kv_head, key, begin, end, count, store, scratch);
      }
      for (int r = 0; r < count; ++r) {
        if (item.partial < 0) {
          merge_row(scratch.total, scratch.split, r, layout);
        } else {
          keep_partial(layer, layout, item.partial + split - item.split_begin,
                       kv_head * group + (row + r) % group, scratch.split, r);
        }
      }
    }
    if (item.partial >= 0) return;
    for (int r = 0; r < count; ++r) {
      const std::int32_t head = kv_head * group + (row + r) % group;
      const float* result = scratch.total.out.data() + std::int64_t{r} * layout.value_stride;
      const std::int64_t token = sequence.query_begin + item.query + (row + r) / group;
      finish(layer, head, scratch.total.maximum[r], scratch.total.sum[r], result,
             out + (token * layer.heads + head) * layer.v_head_dim);
    }
  }

  void keep_partial(const AttentionLayer& layer, const cache::KvLayout& layout,
                    std::int32_t partial, std::int32_t head, const RowState& state, int r) {
    const std::int64_t at = std::int64_t{partial} * layer.heads + head;
    partial_maximum_[static_cast<size_t>(at)] = state.maximum[r];
    partial_sum_[static_cast<size_t>(at)] = state.sum[r];
    const float* result = state.out.data() + std::int64_t{r} * layout.value_stride;
    std::copy(result, result + layout.value_stride, partial_out_.data() + at * layout.value_stride);
  }

  void attend_block(const AttentionLayer& layer, const Item& item, std::int32_t kv_head,
                    std::int32_t key, const std::int32_t* begin, const std::int32_t* end, int count,
                    cache::KvStore& store, Scratch& scratch) {
    const SequenceSlice& sequence = batch_->sequences[static_cast<size_t>(item.sequence)];
    const cache::KvLayout& layout = store.layout();
    std::int32_t first[kTileRows], last[kTileRows];
    bool seen = false;
    for (int r = 0; r < count; ++r) {
      first[r] = std::max(0, begin[r] - key);
      last[r] = std::min(static_cast<std::int32_t>(kKeyBlock), end[r] - key);
      seen = seen || first[r] < last[r];
    }
    if (!seen) return;
    kernels::AttendArgs args{.keys = {},
                             .values = {},
                             .next_keys = {},
                             .next_values = {},
                             .slabs = 0,
                             .key_stride = layout.key_stride,
                             .value_stride = layout.value_stride,
                             .q = scratch.q.data(),
                             .first = first,
                             .last = last,
                             .soft_cap = layer.soft_cap,
                             .maximum = scratch.split.maximum,
                             .sum = scratch.split.sum,
                             .out = scratch.split.out.data()};
    // Where slab t of the sequence stands: its keys, its values.
    const auto place = [&](std::int32_t t, const void** keys, const void** values) {
      const std::int32_t page = sequence.pages[static_cast<size_t>(t / layout.page_size)];
      const std::int32_t slot = t % layout.page_size;
      const std::byte* record = store.record(layer.layer, page, kv_head);
      *keys = record + std::int64_t{slot} * layout.key_stride * layout.element_bytes();
      *values = record + (layout.key_elements() + std::int64_t{slot} * layout.value_stride) *
                             layout.element_bytes();
    };
    const bool narrow = layout.element_bytes() == 1;
    for (std::int32_t t = key; t < std::min(sequence.kv_len, key + kKeyBlock); t += kSlab) {
      const int slab = args.slabs++;
      place(t, &args.keys[slab], &args.values[slab]);
      if (narrow) {
        const std::int32_t page = sequence.pages[static_cast<size_t>(t / layout.page_size)];
        widen(layout, store.record(layer.layer, page, kv_head), t % layout.page_size, slab, scratch,
              args);
      }
    }
    if (narrow) {
      if (sequence.query_len == 1)
        fetch_narrow(sequence, layer.layer, kv_head, key + kKeyBlock, store);
      return attend_bf16_(args, count);
    }
    // A lone query reads each page once, from memory; many find it in a cache. Where the next block
    // is short, its last slab is named once more.
    const std::int32_t stop = std::min(sequence.kv_len, item.split_end * kKeySplit);
    if (sequence.query_len == 1 && key + kKeyBlock < stop) {
      for (int slab = 0; slab < 4; ++slab) {
        const std::int32_t next = std::min(key + kKeyBlock + slab * kSlab, sequence.kv_len - 1);
        place(next / kSlab * kSlab, &args.next_keys[slab], &args.next_values[slab]);
      }
    }
    (layout.dtype == DType::kF32 ? ops_.attend_f32 : attend_bf16_)(args, count);
  }

  // Asks for the 8-bit block of keys from `key` on, which a lone query reads next.
  static void fetch_narrow(const SequenceSlice& sequence, std::int32_t layer, std::int32_t kv_head,
                           std::int32_t key, cache::KvStore& store) {
    const cache::KvLayout& layout = store.layout();
    for (std::int32_t t = key; t < std::min(sequence.kv_len, key + kKeyBlock); t += kSlab) {
      const std::int32_t page = sequence.pages[static_cast<size_t>(t / layout.page_size)];
      const std::byte* record = store.record(layer, page, kv_head);
      const std::int64_t slot = t % layout.page_size;
      const std::byte* keys = record + slot * layout.key_stride;
      const std::byte* values = record + layout.key_elements() + slot * layout.value_stride;
      for (std::int64_t i = 0; i < kSlab * layout.key_stride; i += 64) __builtin_prefetch(keys + i);
      for (std::int64_t i = 0; i < kSlab * layout.value_stride; i += 64) {
        __builtin_prefetch(values + i);
      }
    }
  }

  // Bytes of a slab of bf16 keys and values.
  static std::int64_t slab_bytes(const cache::KvLayout& layout) {
    return std::int64_t{kSlab} * (layout.key_stride + layout.value_stride) * 2;
  }

  // Makes bf16 of the slab of an 8-bit record that begins at `slot`, and lets `args` read that.
  void widen(const cache::KvLayout& layout, const std::byte* record, std::int32_t slot, int slab,
             Scratch& scratch, kernels::AttendArgs& args) const {
    std::byte* keys = scratch.wide.data() + slab * slab_bytes(layout);
    std::byte* values = keys + std::int64_t{kSlab} * layout.key_stride * 2;
    const auto* from_keys = static_cast<const std::byte*>(args.keys[slab]);
    const auto* from_values = static_cast<const std::byte*>(args.values[slab]);
    if (layout.dtype == DType::kI8) {
      const auto* scales = reinterpret_cast<const float*>(record + layout.scales_at()) + slot;
      ops_.widen_keys_i8(from_keys, scales, layout.key_stride, keys);
      ops_.widen_values_i8(from_values, scales + layout.page_size, layout.value_stride, values);
    } else {
      ops_.widen_f8(from_keys, std::int64_t{kSlab} * layout.key_stride, keys);
      ops_.widen_f8(from_values, std::int64_t{kSlab} * layout.value_stride, values);
    }
    args.keys[slab] = keys;
    args.values[slab] = values;
  }

  void merge_row(RowState& total, const RowState& split, int r,
                 const cache::KvLayout& layout) const {
    merge(total.maximum[r], total.sum[r], total.out.data() + std::int64_t{r} * layout.value_stride,
          split.maximum[r], split.sum[r], split.out.data() + std::int64_t{r} * layout.value_stride,
          layout.value_stride);
  }

  // A split in which the row saw no key changes nothing; the first one is taken as it is.
  void merge(float& maximum, float& sum, float* out, float other_maximum, float other_sum,
             const float* other_out, std::int64_t dim) const {
    if (other_sum == 0.0f) return;
    if (sum == 0.0f) {
      maximum = other_maximum;
      sum = other_sum;
      std::copy(other_out, other_out + dim, out);
      return;
    }
    ops_.merge(&maximum, &sum, out, other_maximum, other_sum, other_out, dim);
  }

  void merge_heads(const AttentionLayer& layer, const cache::KvLayout& layout,
                   std::int64_t head_begin, std::int64_t head_end, float* out) {
    for (size_t first = 0; first < items_.size();) {
      const Item& item = items_[first];
      size_t last = first + 1;
      while (last < items_.size() && items_[last].sequence == item.sequence) ++last;
      if (item.partial >= 0) {
        const SequenceSlice& sequence = batch_->sequences[static_cast<size_t>(item.sequence)];
        for (std::int64_t head = head_begin; head < head_end; ++head) {
          const auto at = static_cast<size_t>(std::int64_t{item.partial} * layer.heads + head);
          float* result = partial_out_.data() + at * static_cast<size_t>(layout.value_stride);
          const Item& final = items_[last - 1];
          const std::int32_t end = final.partial + final.split_end - final.split_begin;
          for (std::int32_t other = item.partial + 1; other < end; ++other) {
            const auto from = static_cast<size_t>(std::int64_t{other} * layer.heads + head);
            merge(partial_maximum_[at], partial_sum_[at], result, partial_maximum_[from],
                  partial_sum_[from],
                  partial_out_.data() + from * static_cast<size_t>(layout.value_stride),
                  layout.value_stride);
          }
          finish(
              layer, static_cast<std::int32_t>(head), partial_maximum_[at], partial_sum_[at],
              result,
              out + (std::int64_t{sequence.query_begin} * layer.heads + head) * layer.v_head_dim);
        }
      }
      first = last;
    }
  }

  // Divides by the sum; a sink is one more score without a value.
  static void finish(const AttentionLayer& layer, std::int32_t head, float maximum, float sum,
                     const float* result, float* out) {
    float scale = 1.0f;
    if (layer.sinks) {
      const float sink = layer.sinks[head] * kLog2E, most = std::max(maximum, sink);
      scale = std::exp2(maximum - most);
      sum = sum * scale + std::exp2(sink - most);
    }
    const float factor = scale / sum;
    for (std::int32_t d = 0; d < layer.v_head_dim; ++d) out[d] = result[d] * factor;
  }

  ThreadPool& pool_;
  const BackendInfo& info_;
  const kernels::Ops& ops_;
  const kernels::Attend attend_bf16_;
  const int rows_;  // of one call
  FlashMla mla_;
  const Batch* batch_ = nullptr;
  std::vector<Item> items_;
  std::int32_t partials_ = 0;
  std::vector<Scratch> scratch_;                      // of each thread
  std::vector<float> partial_maximum_, partial_sum_;  // [partials, heads]
  std::vector<float> partial_out_;                    // [partials, heads, value_stride]
};

}  // namespace

std::unique_ptr<AttentionBackend> make_cpu_flash(ThreadPool& pool) {
  return make_tiled(pool, kCpuFlashInfo, kernels::ops().attend_bf16, kAttendRows);
}

std::unique_ptr<AttentionBackend> make_tiled(ThreadPool& pool, const BackendInfo& info,
                                             kernels::Attend attend, int rows) {
  return std::make_unique<CpuFlash>(pool, info, attend, rows);
}

DType stored_type(KvType type) {
  switch (type) {
    case KvType::kF32: return DType::kF32;
    case KvType::kFp8E4M3: return DType::kF8E4M3;
    case KvType::kInt8: return DType::kI8;
    default: return DType::kBF16;
  }
}

LayoutList cpu_flash_layouts(const Needs& needs) {
  if (needs.mla) return latent_layouts(needs, kCpuFlashMlaPageSizes);
  const DType dtype = stored_type(needs.kv_type);
  LayoutList layouts;
  for (std::int32_t page_size : kCpuFlashPageSizes) {
    if (needs.page_size > 0 && needs.page_size != page_size) continue;
    layouts.push_back(cache::packed_layout(
        dtype, page_size, static_cast<std::int32_t>(needs.kv_heads),
        static_cast<std::int32_t>(needs.head_dim), static_cast<std::int32_t>(needs.v_head_dim)));
  }
  return layouts;
}

}  // namespace quern::attention
