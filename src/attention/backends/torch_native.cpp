#include "attention/backends/torch_native.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "attention/backends/cpu_flash.h"
#include "attention/backends/infos.h"
#include "attention/backends/latent_rows.h"
#include "attention/backends/torch_native_mla.h"
#include "core/dtype.h"

namespace quern::attention {
namespace {

class TorchNative final : public AttentionBackend {
 public:
  explicit TorchNative(ThreadPool& pool)
      : pool_(pool), mla_(pool), scores_(static_cast<size_t>(pool.size())) {}

  const BackendInfo& info() const override { return kTorchNativeInfo; }

  void plan(const Batch& batch) override {
    batch_ = &batch;
    std::int32_t longest = 0;
    for (const SequenceSlice& sequence : batch.sequences) {
      longest = std::max(longest, sequence.kv_len);
    }
    for (std::vector<float>& scores : scores_) {
      if (scores.size() < static_cast<size_t>(longest)) scores.resize(static_cast<size_t>(longest));
    }
  }

  void forward(const AttentionLayer& layer, const float* q, const float* k, const float* v,
               cache::KvStore& store, float* out) override {
    store_tokens(layer, *batch_, k, v, store, pool_);
    for (const SequenceSlice& sequence : batch_->sequences) {
      const std::int64_t items = std::int64_t{sequence.query_len} * layer.heads;
      pool_.for_each(items, pool_.even_grain(items),
                     [&](std::int64_t begin, std::int64_t end, int thread) {
                       for (std::int64_t item = begin; item < end; ++item) {
                         attend(layer, sequence, item / layer.heads, item % layer.heads, q, store,
                                out, scores_[static_cast<size_t>(thread)].data());
                       }
                     });
    }
  }

  void forward_mla(const MlaLayer& layer, const MlaInputs& inputs, cache::KvStore& store) override {
    mla_.forward(*batch_, layer, inputs, store);
  }

 private:
  // One query row and head against all its visible keys.
  static void attend(const AttentionLayer& layer, const SequenceSlice& sequence, std::int64_t row,
                     std::int64_t head, const float* q, cache::KvStore& store, float* out,
                     float* scores) {
    const cache::KvLayout& layout = store.layout();
    const std::int64_t token = sequence.query_begin + row;
    const std::int64_t position = sequence.kv_len - sequence.query_len + row;
    const std::int64_t end = layer.causal ? position + 1 : sequence.kv_len;
    const std::int64_t begin =
        layer.window > 0 ? std::max<std::int64_t>(0, position + 1 - layer.window) : 0;
    const std::int64_t kv_head = head / (layer.heads / layer.kv_heads);
    const auto record_of = [&](std::int64_t t) {
      const std::int32_t page = sequence.pages[static_cast<size_t>(t / layout.page_size)];
      return store.record(layer.layer, page, kv_head);
    };
    const float* query = q + (token * layer.heads + head) * layer.head_dim;
    float most = layer.sinks ? layer.sinks[head] : -INFINITY;
    for (std::int64_t t = begin; t < end; ++t) {
      const std::byte* record = record_of(t);
      float score = 0.0f;
      for (std::int64_t d = 0; d < layer.head_dim; ++d) {
        const std::int64_t index = layout.key_index(t % layout.page_size, d);
        score += query[d] * layout.element(record, index);
      }
      score *= layer.scale;
      if (layer.soft_cap > 0) score = layer.soft_cap * std::tanh(score / layer.soft_cap);
      scores[t] = score;
      most = std::max(most, score);
    }
    float sum = layer.sinks ? std::exp(layer.sinks[head] - most) : 0.0f;
    float* to = out + (token * layer.heads + head) * layer.v_head_dim;
    std::fill(to, to + layer.v_head_dim, 0.0f);
    for (std::int64_t t = begin; t < end; ++t) {
      const float p = std::exp(scores[t] - most);
      const std::byte* record = record_of(t);
      sum += p;
      for (std::int64_t d = 0; d < layer.v_head_dim; ++d) {
        const std::int64_t index = layout.value_index(t % layout.page_size, d);
        to[d] += p * layout.element(record, index);
      }
    }
    for (std::int64_t d = 0; d < layer.v_head_dim; ++d) to[d] /= sum;
  }

  ThreadPool& pool_;
  NativeMla mla_;
  const Batch* batch_ = nullptr;
  std::vector<std::vector<float>> scores_;  // of each thread, [longest kv_len]
};

}  // namespace

std::unique_ptr<AttentionBackend> make_torch_native(ThreadPool& pool) {
  return std::make_unique<TorchNative>(pool);
}

LayoutList torch_native_layouts(const Needs& needs) {
  const auto page_size = static_cast<std::int32_t>(needs.page_size > 0 ? needs.page_size : 16);
  if (needs.mla) return latent_layouts(needs, {&page_size, 1});
  const DType dtype = stored_type(needs.kv_type);
  LayoutList layouts = {cache::rows_layout(
      dtype, page_size, static_cast<std::int32_t>(needs.kv_heads),
      static_cast<std::int32_t>(needs.head_dim), static_cast<std::int32_t>(needs.v_head_dim))};
  // As the other half of a split it reads what that one packs.
  for (const cache::KvLayout& layout : cpu_flash_layouts(needs)) layouts.push_back(layout);
  return layouts;
}

}  // namespace quern::attention
