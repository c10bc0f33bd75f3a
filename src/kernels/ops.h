// The one list of kernel entry points. A table of function pointers (Ops) exists per instruction
// set; dispatch.cpp picks one at start-up. Kernels get raw pointers, never allocate, never throw,
// and each has one order of accumulation, so that a row's bits do not depend on the rows beside it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace quern::kernels {

enum class Isa : std::uint8_t { kRef, kAvx2, kAvx512 };

// How a packed matrix stands in memory: panels of 16 outputs, K inside. One layout per format for
// all instruction sets (packed_matrix.h describes each).
enum class WeightFormat : std::uint8_t { kF32, kF16, kBF16, kQ4, kQ8, kQ8Sub, kQ5, kQ6 };
inline constexpr int kWeightFormats = 8;
inline constexpr int kPanel = 16;  // outputs in a panel
inline constexpr int kBlock = 32;  // values along K that share one activation scale

// What a format multiplies with: plain f32, values rounded to bf16, or int8 with a scale per 32.
enum class ActivationKind : std::uint8_t { kF32, kBF16, kInt8 };

constexpr ActivationKind activation_of(WeightFormat format) {
  switch (format) {
    case WeightFormat::kF32:
    case WeightFormat::kF16: return ActivationKind::kF32;
    case WeightFormat::kBF16: return ActivationKind::kBF16;
    default: return ActivationKind::kInt8;
  }
}

// Activations of one row and 32 values: quantised each row by itself, |q| ≤ 127.
struct Int8Block {
  std::int8_t q[kBlock];
  float scale;
  float scaled_sum;     // scale × Σq, for formats with a minimum
  std::int32_t sum;     // Σq, for instructions that want unsigned weights
  std::int32_t sum_16;  // Σq of the first 16, for formats with two scales in a block
};

// Bytes of one prepared row of k values. kBF16 rows are f32 values that bf16 holds exactly (the
// AVX2 kernels want them widened) or bf16 pairs: each table's own choice, within this size.
constexpr std::int64_t activation_row_bytes(ActivationKind kind, std::int64_t k) {
  return kind == ActivationKind::kInt8
             ? (k + kBlock - 1) / kBlock * static_cast<std::int64_t>(sizeof(Int8Block))
             : (k + 1) / 2 * 2 * static_cast<std::int64_t>(sizeof(float));
}

struct MatmulArgs {
  const std::byte* weights;  // first panel of the matrix
  std::int64_t panel_bytes;
  const std::byte* activations;  // [rows] of activation_row_bytes
  std::int64_t activation_stride;
  std::int64_t rows, k;
  std::int64_t panel_begin, panel_end;  // panels to compute
  std::int64_t outputs;  // columns of `out` that exist; the last panel may have fewer
  float* out;            // [rows, out_stride]
  std::int64_t out_stride;
};

// One block of at most 64 keys against `rows` query rows that share a KV head. Slabs are 16 tokens.
// Scores are in units of log2: the caller folds scale × log2(e) into q (with a cap: scale alone).
struct AttendArgs {
  const void* keys[4];    // slab: [key_stride/2][16][2] bf16, or [key_stride][16] f32
  const void* values[4];  // slab: [8][value_stride][2] bf16, or [16][value_stride] f32
  // The slabs of the block that comes next, to be fetched from memory meanwhile; null where it is
  // known to be in a cache.
  const void* next_keys[4];
  const void* next_values[4];
  int slabs;
  std::int64_t key_stride, value_stride;  // multiples of 16
  const float* q;                         // [rows, key_stride], zero padded
  const std::int32_t* first;              // [rows] first visible key of the block
  const std::int32_t* last;               // [rows] one past the last visible key; ≤ first: none
  float soft_cap;                         // 0: none
  // Running softmax of each row, updated: maximum, sum, weighted values [rows, value_stride].
  float* maximum;
  float* sum;
  float* out;
};
using Attend = void (*)(const AttendArgs& args, int rows);
inline constexpr int kAttendRows = 6;  // most rows of one call
inline constexpr int kTileRows = 16;   // the same of tile_attention()
inline constexpr int kSlab = 16;       // tokens of a slab
inline constexpr int kKeyBlock = 64;   // keys of a block, at multiples of 64
inline constexpr int kKeySplit = 256;  // keys whose partial result is merged as one, in order

// Latent attention, absorbed: all heads of a token attend over the same rows, so the lanes of a
// vector are query rows: the heads of one token, or of several. A group is 16 of them.
inline constexpr int kLanes = 16;
inline constexpr int kLatentSplit = 256;  // keys whose partial result is merged as one, in order

enum class LatentType : std::uint8_t { kBF16, kF32, kF8E4M3 };
inline constexpr int kLatentTypes = 3;

// Bytes of 16 lanes of `dim` values, whichever way they are packed.
constexpr std::int64_t lane_bytes(std::int64_t dim) {
  return (dim + 1) / 2 * 2 * kLanes * static_cast<std::int64_t>(sizeof(float));
}
// Columns of a group's result: the latent ones, rounded up.
constexpr std::int64_t latent_columns(std::int64_t latent_dim) {
  return (latent_dim + kLanes - 1) / kLanes * kLanes;
}
// What a call needs to work in: a block's rows as f32, some to spare.
constexpr std::int64_t latent_scratch_bytes(std::int64_t row_dim) {
  return (kKeyBlock + 8) * (row_dim + 2 * kLanes) * static_cast<std::int64_t>(sizeof(float));
}

// One block of at most 64 latent rows against `groups` of query rows. A row's first latent_dim
// values are its value too. Scores are in units of log2, as in AttendArgs.
struct LatentArgs {
  const void* const* rows;  // [keys] rows of row_dim values
  const void* const* next;  // [keys] rows to be fetched from memory meanwhile; null: none
  int keys;
  int groups;
  std::int64_t row_dim, latent_dim;
  const std::byte* q;        // [groups] lanes as packed by LatentKernel::pack, lane_bytes apart
  const std::int32_t* last;  // [groups, 16] one past the last visible key of the block; ≤ 0: none
  // Running softmax of each lane, updated: maximum and sum [groups, 16], weighted rows
  // [groups, latent_columns, 16].
  float* maximum;
  float* sum;
  float* out;
  std::byte* scratch;  // [latent_scratch_bytes], 64-aligned, of the calling thread
};

// Lanes side by side: x [lanes] rows of `dim` f32, `stride` apart, times `factor`, become
// [dim/2][16][2] bf16 or [dim][16] f32. Lanes that are not there, and the partner of an odd last
// value, are zero. With 16 tokens as lanes this makes the slab of keys of AttendArgs.
using PackLanes = void (*)(const float* x, std::int64_t stride, int lanes, std::int64_t dim,
                           float factor, std::byte* out);

struct LatentKernel {
  PackLanes pack;  // of its queries
  void (*attend)(const LatentArgs& args);
};

struct Ops {
  Isa isa;
  std::string_view name;
  // Turns rows of f32 [rows, k] into what `multiply` of that kind reads. Rows are independent.
  void (*prepare[3])(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                     std::int64_t out_stride);
  // out[row][o] = Σ_k x[row][k] · w[o][k] for the panels asked for.
  void (*multiply[kWeightFormats])(const MatmulArgs& args);
  Attend attend_bf16;
  Attend attend_f32;
  // Merges a later split into a row's running softmax (ascending order is the caller's).
  void (*merge)(float* maximum, float* sum, float* out, float other_maximum, float other_sum,
                const float* other_out, std::int64_t dim);
  LatentKernel latent[kLatentTypes];
  // Merges a later split into a group's running softmax, for `columns` of its columns.
  // maximum and sum [16], out [columns, 16].
  void (*merge_lanes)(float* maximum, float* sum, float* out, const float* other_maximum,
                      const float* other_sum, const float* other_out, std::int64_t columns);
  PackLanes pack_keys_bf16, pack_keys_f32;  // slabs of keys
  // A slab of values of at most 16 tokens, x rows `stride` apart: [8][value_stride][2] bf16; what
  // is not there is zero.
  void (*pack_values_bf16)(const float* x, std::int64_t stride, int tokens, std::int64_t dim,
                           std::int64_t value_stride, std::byte* out);
  // Slabs of 8-bit keys and values, in the order of a bf16 slab, to that slab: int8 times the scale
  // of its token, scales [16] f32 none of which is below 2^-110 but 0; fp8_e4m3 as it is, `count`
  // a multiple of 16. A NaN makes NaNs of its token. x and out must not overlap.
  void (*widen_keys_i8)(const std::byte* x, const float* scales, std::int64_t stride,
                        std::byte* out);
  void (*widen_values_i8)(const std::byte* x, const float* scales, std::int64_t stride,
                          std::byte* out);
  void (*widen_f8)(const std::byte* x, std::int64_t count, std::byte* out);
  // out = x / rms(x) · weight, per row.
  void (*rms_norm)(const float* x, const float* weight, float eps, std::int64_t rows,
                   std::int64_t dim, float* out);
  void (*add)(float* x, const float* y, std::int64_t count);  // x += y
  // out = silu(gate) · up
  void (*silu_mul)(const float* gate, const float* up, std::int64_t count, float* out);
  // The largest of count > 0 values; NaN where one of them is.
  float (*maximum)(const float* x, std::int64_t count);
  // out = 2^((x − most) · scale) for x ≤ most; 0 below 2^-126.
  void (*exponentials)(const float* x, float most, float scale, std::int64_t count, float* out);
};

// The table in use: the best this processor can run, or what QUERN_ISA (ref, avx2, avx512) lowers
// it to. Thread-safe. Throws: kInvalidFlagValue for a QUERN_ISA that is unknown or not runnable.
const Ops& ops();
// A given table, or null where this processor or build cannot run it; for tests and benches.
const Ops* ops_for(Isa isa);

// attend_bf16 on AMX tiles; null where processor, system or build lack them, or QUERN_ISA names a
// lower instruction set. The one way to a tile instruction. Thread-safe.
Attend tile_attention();

}  // namespace quern::kernels
