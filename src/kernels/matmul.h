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

// A product of rows that are prepared and some of a matrix's panels.
struct PreparedProduct {
  const PackedMatrix* weights = nullptr;
  const std::byte* activations = nullptr;  // [rows] of activation_row_bytes, of the weights' kind
  std::int64_t rows = 0;
  std::int64_t panel_begin = 0, panel_end = 0;
  float* out = nullptr;  // [rows, weights->outputs]
};

// Owns the scratch for prepared activations and for panels packed for one use. The engine's thread.
class Matmul {
 public:
  // Buffers for at most `max_rows` rows of `max_k` values. Throws: kOutOfMemory.
  Matmul(ThreadPool& pool, std::int64_t max_rows, std::int64_t max_k);

  // x [rows, k] f32; every target's k is the same. Requires: rows ≤ max_rows, k ≤ max_k.
  void operator()(const float* x, std::int64_t rows, std::span<const MatmulTarget> targets);

  // A product whose rows are prepared, on the calling thread, the `thread`th of the pool.
  // Requires: k ≤ max_k.
  void multiply(const PreparedProduct& product, int thread);

 private:
  void prepare(ActivationKind kind, const float* x, std::int64_t rows, std::int64_t k);

  ThreadPool& pool_;
  std::int64_t max_rows_, max_k_;
  AlignedBuffer prepared_[3];  // by ActivationKind
  // Panels that a thread packs for one use. Where no matrix needs it, address space only.
  std::int64_t own_bytes_;
  AlignedBuffer own_;  // [threads, own_bytes_]
};

}  // namespace quern::kernels
