// Latent attention with vdpbf16ps (AVX-512 BF16): a vector's lanes are 16 query rows, usually the
// heads of one token. Scores: 8 rows at a time, a pair of a row's values is broadcast from memory
// by the instruction itself, against the queries' pairs in its lanes. Values: 16 columns at a time,
// pairs of tokens against the probabilities' pairs, for which a block's latent columns are put
// together two rows by two. Queries and probabilities are rounded to bf16. Bound by the multiplier:
// one load and one product a cycle.

#include "kernels/cpu/avx2_ops.h"
#include "kernels/cpu/avx512_intrinsics.h"
#include "kernels/cpu/avx512_ops.h"
#include "kernels/cpu/mla_block.h"

namespace quern::kernels {
namespace {

constexpr int kTokens = 8;             // of a tile of scores
constexpr int kColumns = 16;           // of a tile of values
constexpr int kPairs = kKeyBlock / 2;  // of tokens, in a block
constexpr int kLinePairs = 16;         // of values, in a cache line

// acc += lanes · the pair at p. The compiler would load the pair by an instruction of its own.
QUERN_INLINE __m512 multiply_add(__m512 acc, __m512i lanes, const unsigned* p) {
#if defined(QUERN_SIMDE)
  const __m512i pair = _mm512_set1_epi32(static_cast<int>(*p));
  return _mm512_dpbf16_ps(acc, (__m512bh)lanes, (__m512bh)pair);
#else
  asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(acc) : "v"(lanes), "m"(*p));
  return acc;
#endif
}

QUERN_INLINE void add_pair(__m512 (&acc)[kTokens], const unsigned* const (&rows)[kTokens],
                           const unsigned* q, std::int64_t i) {
  const __m512i lanes = _mm512_loadu_si512(q + i * kLanes);
  QUERN_UNROLL for (int t = 0; t < kTokens; ++t) {
    acc[t] = multiply_add(acc[t], lanes, rows[t] + i);
  }
}

// Scores of 8 rows × 16 lanes. Of each of the rows that come next a line is fetched for every line
// of these, spread out, since a burst would fill the miss buffers.
template <bool kFetch>
__attribute__((noinline)) void score_tile(const unsigned* const (&tile)[kTokens],
                                          const void* const* next, const unsigned* q,
                                          std::int64_t pairs, std::int64_t row_bytes, float* out) {
  const unsigned* rows[kTokens];
  __m512 acc[kTokens];
  QUERN_UNROLL for (int t = 0; t < kTokens; ++t) {
    rows[t] = tile[t];
    acc[t] = _mm512_setzero_ps();
  }
  std::int64_t i = 0;
  if (kFetch) {
    for (std::int64_t line = 0; line < row_bytes && i + kLinePairs <= pairs; line += 64) {
      for (int t = 0; t < kTokens; ++t, i += 2) {
        __builtin_prefetch(static_cast<const char*>(next[t]) + line, 0, 2);
        add_pair(acc, rows, q, i);
        add_pair(acc, rows, q, i + 1);
      }
    }
  }
  for (; i < pairs; ++i) add_pair(acc, rows, q, i);
  QUERN_UNROLL for (int t = 0; t < kTokens; ++t) _mm512_storeu_ps(out + t * kLanes, acc[t]);
}

// 16 columns × 16 lanes: out = out · shrink + Σ over pairs of tokens of values · p.
__attribute__((noinline)) void value_tile(const unsigned* values, const unsigned* p, int pairs,
                                          const float* shrink, float* out) {
  __m512 acc[kColumns];
  QUERN_UNROLL for (int c = 0; c < kColumns; ++c) {
    acc[c] = _mm512_mul_ps(_mm512_loadu_ps(out + c * kLanes), _mm512_loadu_ps(shrink));
  }
  for (int i = 0; i < pairs; ++i, values += kColumns, p += kLanes) {
    const __m512i lanes = _mm512_loadu_si512(p);
    QUERN_UNROLL for (int c = 0; c < kColumns; ++c) {
      acc[c] = multiply_add(acc[c], lanes, values + c);
    }
  }
  QUERN_UNROLL for (int c = 0; c < kColumns; ++c) _mm512_storeu_ps(out + c * kLanes, acc[c]);
}

// Words of two halves: low[i] below, high[i] above.
QUERN_INLINE __m512i side_by_side(__m256i low, __m256i high) {
  return _mm512_or_si512(_mm512_cvtepu16_epi32(low),
                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(high), 16));
}

QUERN_INLINE __m256i load_halves(const unsigned short* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

// The latent columns of the block as pairs of tokens: [columns/16][32 pairs][16 columns].
QUERN_INLINE void pair_tokens(const unsigned short* const* rows, int keys, std::int64_t columns,
                              unsigned* out) {
  for (int t = 0; t < keys; t += 2) {
    const bool both = t + 1 < keys;
    for (std::int64_t c = 0; c < columns; c += kColumns) {
      const __m256i second = both ? load_halves(rows[t + 1] + c) : _mm256_setzero_si256();
      _mm512_storeu_si512(out + (c * kPairs + t / 2 * kColumns),
                          side_by_side(load_halves(rows[t] + c), second));
    }
  }
}

// p [n, 16] f32 as pairs of tokens: [n/2][16]. Requires: where n is odd, zeros behind the last.
QUERN_INLINE void pair_probabilities(const float* p, int n, unsigned* out) {
  for (int t = 0; t < n; t += 2, p += 2 * kLanes, out += kLanes) {
    const __m256i low = avx512_round_to_bf16(_mm512_loadu_ps(p));
    const __m256i high = avx512_round_to_bf16(_mm512_loadu_ps(p + kLanes));
    _mm512_storeu_si512(out, side_by_side(low, high));
  }
}

// `rows` are bf16 and may be read as pairs, and as 16 columns at a time.
QUERN_INLINE void attend(const LatentArgs& args, const unsigned short* const* rows,
                         std::int64_t row_bytes, unsigned* paired) {
  alignas(64) float scores[(kKeyBlock + 1) * kLanes];
  alignas(64) unsigned p[kPairs * kLanes];
  alignas(64) float shrink[kLanes];
  const std::int64_t columns = latent_columns(args.latent_dim), pairs = (args.row_dim + 1) / 2;
  pair_tokens(rows, args.keys, columns, paired);
  for (int group = 0; group < args.groups; ++group) {
    const int n = visible_keys(args, group);
    if (n == 0) continue;
    const auto* q = reinterpret_cast<const unsigned*>(args.q + group * lane_bytes(args.row_dim));
    for (int t = 0; t < n; t += kTokens) {
      const unsigned* tile[kTokens];
      for (int i = 0; i < kTokens; ++i) {
        tile[i] = reinterpret_cast<const unsigned*>(rows[t + i < n ? t + i : n - 1]);
      }
      float* to = scores + t * kLanes;
      if (group == 0 && args.next != nullptr && t + kTokens <= args.keys) {
        score_tile<true>(tile, args.next + t, q, pairs, row_bytes, to);
      } else {
        score_tile<false>(tile, nullptr, q, pairs, row_bytes, to);
      }
    }
    softmax_lanes(scores, n, args.last + group * kLanes, args.maximum + group * kLanes,
                  args.sum + group * kLanes, shrink);
    if (n % 2 != 0) _mm512_storeu_ps(scores + n * kLanes, _mm512_setzero_ps());
    pair_probabilities(scores, n, p);
    float* out = args.out + group * columns * kLanes;
    for (std::int64_t c = 0; c < columns; c += kColumns) {
      value_tile(paired + c * kPairs, p, (n + 1) / 2, shrink, out + c * kLanes);
    }
  }
}

// The rows of a block as bf16, one behind the other, zeros behind each: of another type, or of a
// width that is not read in whole pairs and columns.
QUERN_INLINE std::int64_t padded_dim(const LatentArgs& args) {
  return (args.row_dim + kColumns - 1) / kColumns * kColumns;
}

}  // namespace

void attend_latent_bf16_avx512(const LatentArgs& args) {
  const unsigned short* rows[kKeyBlock];
  const std::int64_t dim = padded_dim(args);
  auto* copy = reinterpret_cast<unsigned short*>(args.scratch);
  auto* paired = reinterpret_cast<unsigned*>(copy + kKeyBlock * dim);
  const bool in_place = args.row_dim % 2 == 0 && args.latent_dim % kColumns == 0;
  for (int t = 0; t < args.keys; ++t, copy += dim) {
    rows[t] = static_cast<const unsigned short*>(args.rows[t]);
    if (in_place) continue;
    __builtin_memcpy(copy, rows[t], static_cast<std::size_t>(2 * args.row_dim));
    __builtin_memset(copy + args.row_dim, 0, static_cast<std::size_t>(2 * (dim - args.row_dim)));
    rows[t] = copy;
  }
  attend(args, rows, 2 * args.row_dim, paired);
}

void attend_latent_f8_avx512(const LatentArgs& args) {
  const unsigned short* rows[kKeyBlock];
  const std::int64_t dim = padded_dim(args);
  auto* copy = reinterpret_cast<unsigned short*>(args.scratch);
  auto* paired = reinterpret_cast<unsigned*>(copy + kKeyBlock * dim);
  for (int t = 0; t < args.keys; ++t, copy += dim) {
    const auto* from = static_cast<const unsigned char*>(args.rows[t]);
    rows[t] = copy;
    std::int64_t d = 0;
    const auto widen = [&](const unsigned char* bytes) {
      const __m512 wide = _mm512_mul_ps(_mm512_cvtph_ps(halves_of_f8(bytes)), _mm512_set1_ps(256));
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(copy + d), avx512_round_to_bf16(wide));
    };
    for (; d + kColumns <= args.row_dim; d += kColumns) widen(from + d);
    if (d < args.row_dim) {
      unsigned char rest[kColumns] = {};
      __builtin_memcpy(rest, from + d, static_cast<std::size_t>(args.row_dim - d));
      widen(rest);
    }
  }
  attend(args, rows, args.row_dim, paired);
}

void pack_lanes_bf16_avx512(const float* x, std::int64_t stride, int lanes, std::int64_t dim,
                            float factor, std::byte* out) {
  constexpr int kChunk = 2 * kLanes;  // values, which are 16 pairs
  alignas(64) unsigned pairs[kLanes][kLanes] = {};
  auto* to = reinterpret_cast<unsigned*>(out);
  for (std::int64_t d = 0; d < dim; d += kChunk) {
    const std::int64_t count = dim - d < kChunk ? dim - d : kChunk;
    for (int lane = 0; lane < lanes; ++lane) {
      alignas(64) float values[kChunk] = {};
      __builtin_memcpy(values, x + lane * stride + d,
                       static_cast<std::size_t>(count) * sizeof(float));
      for (int i = 0; i < kChunk; i += 16) {
        _mm512_storeu_ps(values + i,
                         _mm512_mul_ps(_mm512_loadu_ps(values + i), _mm512_set1_ps(factor)));
      }
      avx512_to_pairs(values, kChunk, pairs[lane]);
    }
    for (std::int64_t i = 0; i < (count + 1) / 2; ++i, to += kLanes) {
      for (int lane = 0; lane < kLanes; ++lane) to[lane] = pairs[lane][i];
    }
  }
}

void pack_values_bf16_avx512(const float* x, std::int64_t stride, int tokens, std::int64_t dim,
                             std::int64_t value_stride, std::byte* out) {
  auto* to = reinterpret_cast<unsigned*>(out);
  const auto load = [&](int t, std::int64_t d) {
    alignas(64) float values[16] = {};
    if (t >= tokens || d >= dim) return _mm512_setzero_ps();
    if (d + 16 <= dim) return _mm512_loadu_ps(x + t * stride + d);
    __builtin_memcpy(values, x + t * stride + d, static_cast<std::size_t>(dim - d) * sizeof(float));
    return _mm512_loadu_ps(values);
  };
  for (int t = 0; t < kSlab; t += 2) {
    for (std::int64_t d = 0; d < value_stride; d += 16, to += 16) {
      _mm512_storeu_si512(
          to, side_by_side(avx512_round_to_bf16(load(t, d)), avx512_round_to_bf16(load(t + 1, d))));
    }
  }
}

}  // namespace quern::kernels
