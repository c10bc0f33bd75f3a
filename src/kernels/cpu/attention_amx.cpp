// One block of keys against up to 16 query rows on AMX tiles. tdpbf16ps wants its right operand as
// rows of bf16 pairs, and so the pages lie: key and value tiles are loaded from them as they are.
// Queries and probabilities are rounded to bf16. Scores: a tile is 16 rows × 16 tokens, a slab.
// Values: 16 rows × 16 dims. One instruction sums over 16 pairs, 32 dims or 32 tokens, at absolute
// places, so that a row's bits depend neither on the rows beside it nor on the page size. Not timed
// on such a machine yet; the softmax between the tiles is likely to bind.

#include "kernels/cpu/amx_intrinsics.h"
#include "kernels/cpu/amx_ops.h"
#include "kernels/cpu/attention_block.h"
#include "kernels/cpu/avx512_intrinsics.h"

namespace quern::kernels {
namespace {

constexpr int kPairs = 16;      // of a full tile, and its columns
constexpr int kTileBytes = 64;  // of a full tile's row

// Tiles 0–3 hold the scores of four slabs, 4 the queries, 5 keys; 6 and 7 are as 4 and 5 for the
// last 16 dims of a width that 32 does not divide. Then 0 is the output, 4 and 3 the probabilities
// of the block's halves, 5 values.
struct alignas(64) TileConfig {
  unsigned char palette, start_row, reserved[14];
  unsigned short row_bytes[16];
  unsigned char rows[16];
};

QUERN_INLINE void configure(int rows) {
  const auto m = static_cast<unsigned char>(rows);
  const TileConfig config = {1,
                             0,
                             {},
                             {kTileBytes, kTileBytes, kTileBytes, kTileBytes, kTileBytes,
                              kTileBytes, kTileBytes / 2, kTileBytes},
                             {m, m, m, m, m, kPairs, m, kPairs / 2}};
  QUERN_MEMORY_SETTLES;
  _tile_loadconfig(&config);
}

// scores[r][t] = q[r] · key[t] for the slabs that some row sees.
QUERN_INLINE void score(const AttendArgs& args, int rows, Slabs slabs,
                        float (&scores)[kTileRows][kKeyBlock]) {
  alignas(64) unsigned q[kTileRows][kPairs];
#define QUERN_SCORE_SLAB(n, queries, keys_tile)                                              \
  if (slabs.begin <= n && n < slabs.end) {                                                   \
    QUERN_TILE_LOAD(keys_tile, static_cast<const unsigned*>(args.keys[n]) + dim / 2 * kSlab, \
                    kTileBytes);                                                             \
    _tile_dpbf16ps(n, queries, keys_tile);                                                   \
  }
#define QUERN_STORE_SLAB(n)                                            \
  if (slabs.begin <= n && n < slabs.end) {                             \
    _tile_stored(n, &scores[0][n * kSlab], kKeyBlock * sizeof(float)); \
  }
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  std::int64_t dim = 0;
  for (; dim + 2 * kPairs <= args.key_stride; dim += 2 * kPairs) {
    for (int r = 0; r < rows; ++r) {
      avx512_to_pairs(args.q + r * args.key_stride + dim, 2 * kPairs, q[r]);
    }
    QUERN_TILE_LOAD(4, q, kTileBytes);
    QUERN_SCORE_SLAB(0, 4, 5)
    QUERN_SCORE_SLAB(1, 4, 5)
    QUERN_SCORE_SLAB(2, 4, 5)
    QUERN_SCORE_SLAB(3, 4, 5)
  }
  if (dim < args.key_stride) {
    for (int r = 0; r < rows; ++r) {
      avx512_to_pairs(args.q + r * args.key_stride + dim, kPairs, q[r]);
    }
    QUERN_TILE_LOAD(6, q, kTileBytes);
    QUERN_SCORE_SLAB(0, 6, 7)
    QUERN_SCORE_SLAB(1, 6, 7)
    QUERN_SCORE_SLAB(2, 6, 7)
    QUERN_SCORE_SLAB(3, 6, 7)
  }
  QUERN_STORE_SLAB(0)
  QUERN_STORE_SLAB(1)
  QUERN_STORE_SLAB(2)
  QUERN_STORE_SLAB(3)
#undef QUERN_SCORE_SLAB
#undef QUERN_STORE_SLAB
}

struct Rows {
  const unsigned* base;
  std::int64_t stride;  // in pairs
};

// The 16 pairs of the block's tokens [32·half, 32·half + 32) at 16 dims. In pages of 32 tokens and
// more the two slabs are neighbours and stay where they are, else the rows are put together; a slab
// that is not there yet counts as zeros.
QUERN_INLINE Rows values_at(const AttendArgs& args, int half, std::int64_t dim,
                            unsigned (&together)[kPairs][kPairs]) {
  constexpr int kSlabPairs = kSlab / 2;
  const bool both = 2 * half + 1 < args.slabs;
  const auto* first = static_cast<const unsigned*>(args.values[2 * half]);
  const auto* second = both ? static_cast<const unsigned*>(args.values[2 * half + 1]) : nullptr;
  if (second == first + kSlabPairs * args.value_stride) return {first + dim, args.value_stride};
  for (int pair = 0; pair < kSlabPairs; ++pair) {
    const std::int64_t at = pair * args.value_stride + dim;
    __builtin_memcpy(together[pair], first + at, kTileBytes);
    if (both) {
      __builtin_memcpy(together[kSlabPairs + pair], second + at, kTileBytes);
    } else {
      __builtin_memset(together[kSlabPairs + pair], 0, kTileBytes);
    }
  }
  return {together[0], kPairs};
}

// out += p · V; p is zero for the tokens of slabs that no row sees.
QUERN_INLINE void weigh(const AttendArgs& args, Slabs slabs,
                        const unsigned (&p)[kTileRows][kKeyBlock / 2]) {
  alignas(64) unsigned together[kPairs][kPairs];
  const std::int64_t out_bytes = args.value_stride * static_cast<std::int64_t>(sizeof(float));
  const bool low = slabs.begin < 2;
  const bool high = slabs.end > 2;
  QUERN_TILE_LOAD(4, p[0], sizeof p[0]);
  QUERN_TILE_LOAD(3, p[0] + kPairs, sizeof p[0]);
  for (std::int64_t dim = 0; dim < args.value_stride; dim += kPairs) {
    QUERN_TILE_LOAD(0, args.out + dim, out_bytes);
    if (low) {
      const Rows values = values_at(args, 0, dim, together);
      QUERN_TILE_LOAD(5, values.base, values.stride * 4);
      _tile_dpbf16ps(0, 4, 5);
    }
    if (high) {
      const Rows values = values_at(args, 1, dim, together);
      QUERN_TILE_LOAD(5, values.base, values.stride * 4);
      _tile_dpbf16ps(0, 3, 5);
    }
    _tile_stored(0, args.out + dim, out_bytes);
  }
}

}  // namespace

void attend_bf16_amx(const AttendArgs& args, int rows) {
  const Slabs slabs = visible_slabs(args, rows);
  if (slabs.begin >= slabs.end) return;
  alignas(64) float scores[kTileRows][kKeyBlock];
  alignas(64) unsigned p[kTileRows][kKeyBlock / 2] = {};
  configure(rows);
  score(args, rows, slabs, scores);
  const int begin = slabs.begin * kSlab, end = slabs.end * kSlab;
  for (int r = 0; r < rows; ++r) {
    const float shrink = softmax_row(scores[r], begin, end, args.first[r], args.last[r],
                                     args.soft_cap, args.maximum + r, args.sum + r);
    avx512_to_pairs(scores[r] + begin, end - begin, p[r] + begin / 2);
    if (shrink == 1.0f) continue;
    float* out = args.out + r * args.value_stride;
    for (std::int64_t d = 0; d < args.value_stride; ++d) out[d] *= shrink;
  }
  weigh(args, slabs, p);
  _tile_release();  // tiles in use make switches between threads dearer
}

}  // namespace quern::kernels
