// Stored weights to f32, exactly as ggml defines each block type. Portable; the embedding lookup,
// the packers and the f32 path use it.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/dtype.h"
#include "core/tensor.h"

namespace quern::kernels {

// Decodes `count` values (a multiple of the block size) that begin at `data`.
void decode(DType type, const std::byte* data, std::int64_t count, float* out);

// `count` values of a row of a matrix [rows, columns] from column `begin` on (both multiples of the
// block size) as f32, the matrix's scales applied.
void decode_values(const TensorView& matrix, std::int64_t row, std::int64_t begin,
                   std::int64_t count, float* out);
// A whole row [columns].
void decode_row(const TensorView& matrix, std::int64_t row, float* out);

// A K-quant super-block of 256 values seen as 8 blocks of 32, each of two sub-blocks of 16:
// value = scale[i/16] · q[i] + minimum[i/32], with small integers q. Also Q3_K (no minimum).
struct SubBlocks {
  std::int8_t q[256];
  float scale[16];
  float minimum[8];
};
// Requires: type is kQ3_K, kQ4_K, kQ5_K or kQ6_K.
void decode_sub_blocks(DType type, const std::byte* data, SubBlocks& out);
// The same without q, which is most of the work.
void decode_sub_scales(DType type, const std::byte* data, SubBlocks& out);

}  // namespace quern::kernels
