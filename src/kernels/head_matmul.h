// Products of every head with a matrix of its own, as latent attention has before and after it:
// out[row][head] = x[row][head] · W[head]ᵀ. Threads share out heads and parts of their panels,
// never K, so a row's bits depend on nothing but the row.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/threads.h"
#include "kernels/packed_matrix.h"

namespace quern::kernels {

// Strides are in elements.
struct HeadProduct {
  const PackedMatrix* weights = nullptr;  // [heads·outputs, k]
  std::int64_t heads = 0;
  const float* x = nullptr;  // [rows, heads, k]
  std::int64_t x_row_stride = 0, x_head_stride = 0;
  float* out = nullptr;  // [rows, heads, outputs]
  std::int64_t out_row_stride = 0, out_head_stride = 0;
};

// What a product of that k needs to work in, for all threads.
std::int64_t head_scratch_bytes(const ThreadPool& pool, std::int64_t k);

// `scratch` is 64-aligned. Requires: packed weights, outputs a multiple of kPanel. On the engine's
// thread.
void multiply_heads(ThreadPool& pool, const HeadProduct& product, std::int64_t rows,
                    std::byte* scratch);

}  // namespace quern::kernels
