// Latent rows of a step: storing the new ones, reading cached ones. For backends with MLA.
#pragma once

#include <algorithm>

#include "attention/backends/store_tokens.h"
#include "kernels/decode_blocks.h"

namespace quern::attention {

// On all threads. rows [tokens, row_dim] f32.
inline void store_latent_rows(const MlaLayer& layer, const Batch& batch, const float* rows,
                              cache::KvStore& store, ThreadPool& pool) {
  const AttentionLayer stored{.layer = layer.layer, .kv_heads = 1, .head_dim = layer.row_dim()};
  store_tokens(stored, batch, rows, nullptr, store, pool);
}

inline const std::byte* latent_row(const MlaLayer& layer, const SequenceSlice& sequence,
                                   std::int64_t token, cache::KvStore& store) {
  const cache::KvLayout& layout = store.layout();
  const std::int32_t page = sequence.pages[static_cast<std::size_t>(token / layout.page_size)];
  return store.record(layer.layer, page, 0) +
         layout.key_index(token % layout.page_size, 0) * layout.element_bytes();
}

// Tokens [begin, begin + n) of a sequence as f32: out [n, row_dim].
inline void read_latent_rows(const MlaLayer& layer, const SequenceSlice& sequence,
                             std::int64_t begin, std::int64_t n, cache::KvStore& store,
                             float* out) {
  for (std::int64_t t = 0; t < n; ++t) {
    kernels::decode(store.layout().dtype, latent_row(layer, sequence, begin + t, store),
                    layer.row_dim(), out + t * layer.row_dim());
  }
}

// Page layouts of latent rows for these needs: of the page size they ask for, else of `page_sizes`.
inline LayoutList latent_layouts(const Needs& needs, std::span<const std::int32_t> page_sizes) {
  const DType dtype = needs.kv_type == KvType::kF32       ? DType::kF32
                      : needs.kv_type == KvType::kFp8E4M3 ? DType::kF8E4M3
                                                          : DType::kBF16;
  const auto row_dim = static_cast<std::int32_t>(needs.head_dim);
  LayoutList layouts;
  for (const std::int32_t page_size : page_sizes) {
    if (needs.page_size > 0 && needs.page_size != page_size) continue;
    layouts.push_back(cache::latent_layout(dtype, page_size, row_dim));
  }
  return layouts;
}

}  // namespace quern::attention
