// Matrix products of a step: y = x · Wᵀ for one input and several matrices (q, k, v or gate, up),
// on all threads. Rows are prepared once for each kind of activation; threads split the panels of
// outputs, never K, so a row's bits depend on nothing but the row.
#pragma once

#include <cstdint>
#include <span>

#include "base/threads.h"
#include "kernels/aligned_buffer.h"
#include "kernels/packed_matrix.h"

namespace quern::kernels {

struct MatmulTarget {
  const PackedMatrix* weights = nullptr;
  float* out = nullptr;  // [rows, weights->outputs]
};

// Owns the scratch for prepared activations. The engine's thread.
class Matmul {
 public:
  // Buffers for at most `max_rows` rows of `max_k` values. Throws: kOutOfMemory.
  Matmul(ThreadPool& pool, std::int64_t max_rows, std::int64_t max_k);

  // x [rows, k] f32; every target's k is the same. Requires: rows ≤ max_rows, k ≤ max_k.
  void operator()(const float* x, std::int64_t rows, std::span<const MatmulTarget> targets);

 private:
  void prepare(ActivationKind kind, const float* x, std::int64_t rows, std::int64_t k);
  // Panels [panel_begin, panel_end) of one target, on the calling thread.
  void multiply(const MatmulTarget& target, std::int64_t rows, std::int64_t k,
                std::int64_t panel_begin, std::int64_t panel_end);

  ThreadPool& pool_;
  std::int64_t max_rows_, max_k_;
  AlignedBuffer prepared_[3];  // by ActivationKind
};

}  // namespace quern::kernels
