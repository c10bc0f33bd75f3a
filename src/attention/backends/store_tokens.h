// Storing a step's new keys and values: the first half of every CPU backend's forward().
#pragma once

#include <algorithm>

#include "attention/backend.h"

namespace quern::attention {

// Pages that the new tokens of a batch touch, for one sequence.
inline std::int64_t touched_pages(const SequenceSlice& sequence, std::int64_t page_size) {
  const std::int64_t begin = sequence.kv_len - sequence.query_len;
  return (sequence.kv_len - 1) / page_size - begin / page_size + 1;
}

// On all threads. Work is cut at whole records, never inside one: storing slot 0 clears the record.
// k [tokens, kv_heads, head_dim], v [tokens, kv_heads, v_head_dim].
inline void store_tokens(const AttentionLayer& layer, const Batch& batch, const float* k,
                         const float* v, cache::KvStore& store, ThreadPool& pool) {
  const std::int64_t page_size = store.layout().page_size;
  const auto store_sequence = [&](const SequenceSlice& sequence, std::int64_t first,
                                  std::int64_t last) {
    const std::int64_t begin = sequence.kv_len - sequence.query_len, end = sequence.kv_len;
    for (std::int64_t record = first; record < last; ++record) {
      const std::int64_t page = begin / page_size + record / layer.kv_heads;
      const std::int64_t head = record % layer.kv_heads;
      const std::int64_t stop = std::min(end, (page + 1) * page_size);
      for (std::int64_t t = std::max(begin, page * page_size); t < stop; ++t) {
        const std::int64_t token = sequence.query_begin + t - begin;
        store.store(layer.layer, sequence.pages[static_cast<std::size_t>(page)], head,
                    t % page_size, k + (token * layer.kv_heads + head) * layer.head_dim,
                    v + (token * layer.kv_heads + head) * layer.v_head_dim);
      }
    }
  };
  std::int64_t records = 0;
  for (const SequenceSlice& sequence : batch.sequences) {
    records += touched_pages(sequence, page_size) * layer.kv_heads;
  }
  // A few tokens are stored sooner than another thread hears of them.
  const std::int64_t grain = records < 16 ? records : pool.even_grain(records);
  pool.for_each(records, grain, [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t first = 0;
    for (const SequenceSlice& sequence : batch.sequences) {
      const std::int64_t count = touched_pages(sequence, page_size) * layer.kv_heads;
      store_sequence(sequence, std::max(std::int64_t{0}, begin - first),
                     std::min(count, end - first));
      first += count;
    }
  });
}

}  // namespace quern::attention
