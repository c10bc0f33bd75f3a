#include "model/layers/workspace.h"

#include <algorithm>

namespace quern::model {

Workspace::Workspace(ThreadPool& pool, std::int64_t max_tokens, std::int64_t max_rows)
    : pool_(pool),
      ops_(kernels::ops()),
      max_tokens_(max_tokens),
      max_rows_(std::max(max_tokens, max_rows)) {}

void Workspace::reserve(const Scratch& counted, std::int64_t k, std::int64_t rows) {
  max_rows_ = std::max(max_rows_, rows);
  scratch_bytes_ = std::max(scratch_bytes_, counted.bytes());
  max_k_ = std::max(max_k_, k);
}

void Workspace::allocate() {
  area_ = kernels::AlignedBuffer(scratch_bytes_);
  matmul_.emplace(pool_, max_rows_, max_k_);
}

}  // namespace quern::model
