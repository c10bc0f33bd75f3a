// One forward pass: all new tokens of all sequences laid end to end, no modes. Decode is
// query_len == 1, prefill is more, prefill after cached tokens is query_len < kv_len.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace quern {

struct SequenceSlice {
  std::int32_t query_begin = 0;  // first row of this sequence in the batch
  std::int32_t query_len = 0;    // new tokens
  std::int32_t kv_len = 0;       // tokens in the cache after this pass, the new ones counted
  // Page numbers of the sequence, in order; covers kv_len tokens. Owned by the request's state.
  std::span<const std::int32_t> pages;
};

struct Batch {
  std::vector<std::int32_t> token_ids;   // [tokens]
  std::vector<std::int32_t> positions;   // [tokens]
  std::vector<std::int32_t> logit_rows;  // [rows] tokens whose logits are wanted, ascending
  std::vector<SequenceSlice> sequences;  // [n], in the order of query_begin

  std::int64_t tokens() const { return static_cast<std::int64_t>(token_ids.size()); }
  std::int64_t rows() const { return static_cast<std::int64_t>(logit_rows.size()); }
  void clear() {
    token_ids.clear();
    positions.clear();
    logit_rows.clear();
    sequences.clear();
  }
};

}  // namespace quern
