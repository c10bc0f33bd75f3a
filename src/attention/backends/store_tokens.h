// Storing a step's new keys and values: the first half of every CPU backend's forward().
#pragma once

#include <algorithm>

#include "attention/backend.h"

namespace quern::attention {

// Thread `thread` of `threads` stores its share. Work is cut at whole records, never inside one:
// storing slot 0 clears the record. k [tokens, kv_heads, head_dim], v [tokens, kv_heads,
// v_head_dim].
inline void store_tokens(const AttentionLayer& layer, const Batch& batch, const float* k,
                         const float* v, cache::KvStore& store, int thread, int threads) {
  const std::int64_t page_size = store.layout().page_size;
  for (const SequenceSlice& sequence : batch.sequences) {
    const std::int64_t begin = sequence.kv_len - sequence.query_len, end = sequence.kv_len;
    const std::int64_t first_page = begin / page_size;
    const std::int64_t pages = (end - 1) / page_size - first_page + 1;
    const Range records = share(pages * layer.kv_heads, thread, threads);
    for (std::int64_t record = records.begin; record < records.end; ++record) {
      const std::int64_t page = first_page + record / layer.kv_heads;
      const std::int64_t head = record % layer.kv_heads;
      const std::int64_t last = std::min(end, (page + 1) * page_size);
      for (std::int64_t t = std::max(begin, page * page_size); t < last; ++t) {
        const std::int64_t token = sequence.query_begin + t - begin;
        store.store(layer.layer, sequence.pages[static_cast<std::size_t>(page)], head,
                    t % page_size, k + (token * layer.kv_heads + head) * layer.head_dim,
                    v + (token * layer.kv_heads + head) * layer.v_head_dim);
      }
    }
  }
}

}  // namespace quern::attention
