// A weight matrix [outputs, k] packed for the kernels, once at load or anew for every product:
// panels of 16 outputs, K inside, the same layout for every instruction set and every number of
// rows. Missing outputs of the last panel are zero. Types of few bits become kQ4, kQ5 and kQ6 where
// halves hold their scales and minima, else kQ8 (Q4_0, Q5_0) or kQ8Sub (K-quants).
//
//   kF32    [k][16] f32
//   kF16    [k][16] half
//   kBF16   [k/2][16][2] bf16, an odd k padded with zero
//   kQ4     a block of 32 k: half d[16], half min[16], then 4 groups j of 16 outputs × 4 bytes:
//           low nibble of byte i: k = 8j+i, high nibble: k = 8j+4+i          w = d·q + min
//   kQ5     as kQ4, then 16 outputs × 4 bytes: bit n of byte i is the fifth bit of k = 4n+i
//   kQ6     half s0[16], half s1[16], the nibbles of kQ4, then twice 16 outputs × 4 bytes: bits 2n
//           and 2n+1 of byte i are the upper ones of k = 16·half+4n+i        w = s(k/16)·(q − 32)
//   kQ8     half d[16], then 8 quads of 16 outputs × 4 int8: k = 4·quad+i    w = d·q
//   kQ8Sub  f32 s0[16], s1[16], min[16], then quads as kQ8                   w = s(k/16)·q + min
#pragma once

#include <cstdint>
#include <optional>

#include "base/threads.h"
#include "core/tensor.h"
#include "kernels/aligned_buffer.h"
#include "kernels/ops.h"

namespace quern::kernels {

// A matrix as a checkpoint holds it; `data` and the scales are the checkpoint's.
struct StoredMatrix {
  TensorInfo info;
  const std::byte* data = nullptr;
  BlockScales scales;

  TensorView view() const { return {&info, data, scales}; }
};

struct PackedMatrix {
  WeightFormat format = WeightFormat::kF32;
  std::int64_t outputs = 0, k = 0;
  std::int64_t panel_bytes = 0;
  AlignedBuffer data;                  // all panels; empty where they are packed for each use
  std::optional<StoredMatrix> stored;  // what they are then packed from

  std::int64_t panels() const { return (outputs + kPanel - 1) / kPanel; }
  // That a product with all of it reads.
  std::int64_t bytes() const { return stored ? stored->info.bytes : data.size(); }
};

// kQ4, kQ5, kQ6: bytes of a block of 32 k and 16 outputs, scales included.
constexpr std::int64_t plane_bytes(int bits) { return 64 + 64 * bits; }
// The unsigned weight of output `lane` at k < 32; `planes` begins behind the scales.
constexpr int plane_value(const std::byte* planes, int bits, int lane, int k) {
  const auto byte = [&](int at) { return static_cast<int>(planes[at + 4 * lane + k % 4]); };
  const int nibble = byte(64 * (k / 8)) >> (k % 8 < 4 ? 0 : 4) & 15;
  if (bits == 5) return nibble | (byte(256) >> k / 4 & 1) << 4;
  if (bits == 6) return nibble | (byte(256 + 64 * (k / 16)) >> 2 * (k / 4 % 4) & 3) << 4;
  return nibble;
}

// Bytes of a panel of 16 outputs.
std::int64_t panel_bytes(WeightFormat format, std::int64_t k);

// What a stored type is packed to. kF32 (--dtype float32) decodes everything to f32; kBF16 (--dtype
// bfloat16) rounds F32 and F16 weights to bf16.
enum class PackMode { kKeep, kF32, kBF16 };
WeightFormat packed_format(DType stored, PackMode mode);

// Packs `matrix` into the arena, on all threads of `pool`. Throws: kOutOfMemory.
PackedMatrix pack(const TensorView& matrix, PackMode mode, ThreadPool& pool, Arena& arena);

// The matrix that pack() would make, to be packed a panel at a time: the same values and bits. The
// stored bytes must outlive it.
PackedMatrix leave_stored(const TensorView& matrix, PackMode mode, ThreadPool& pool);

// Packs panel `panel` of a stored matrix. Any thread.
void pack_panel(const TensorView& matrix, WeightFormat format, std::int64_t panel, std::byte* out);

// Row `output` as f32 [k]: the embedding lookup reads the same copy that the tied head multiplies.
void unpack_row(const PackedMatrix& matrix, std::int64_t output, float* out);

}  // namespace quern::kernels
