// Latent attention on AVX2: two vectors of 8 lanes are 16 query rows, usually the heads of one
// token, so that neither scores nor softmax need a horizontal step. A block's rows are widened once
// to f32 and stay in the second-level cache; then 6 rows × 16 lanes of scores at a time, and 6
// columns × 16 lanes of values. Bound by the multiplier: 12 fmas to 2 loads and 6 broadcasts.

#include "kernels/cpu/avx2_ops.h"
#include "kernels/cpu/mla_block.h"

namespace quern::kernels {
namespace {

constexpr int kTile = 6;  // rows or columns; 12 sums fill the registers

// acc[r] += x[r · x_row] · lanes, for R values against 16 lanes.
template <int R>
QUERN_INLINE void add_lanes(__m256 (&acc)[R][2], const float* x, std::int64_t x_row,
                            const float* lanes) {
  const __m256 low = _mm256_loadu_ps(lanes), high = _mm256_loadu_ps(lanes + 8);
  QUERN_UNROLL for (int r = 0; r < R; ++r) {
    const __m256 value = _mm256_broadcast_ss(x + r * x_row);
    acc[r][0] = _mm256_fmadd_ps(value, low, acc[r][0]);
    acc[r][1] = _mm256_fmadd_ps(value, high, acc[r][1]);
  }
}

// Scores of 6 rows × 16 lanes. Of each of the rows that come next a line is fetched for every line
// of these, spread out, since a burst would fill the miss buffers.
template <bool kFetch>
__attribute__((noinline)) void score_tile(const float* rows, std::int64_t stride, const float* q,
                                          std::int64_t dim, const void* const* next,
                                          std::int64_t row_bytes, float* out) {
  __m256 acc[kTile][2];
  QUERN_UNROLL for (int r = 0; r < kTile; ++r) { acc[r][0] = acc[r][1] = _mm256_setzero_ps(); }
  std::int64_t d = 0;
  if (kFetch) {
    const std::int64_t between = dim * 64 / row_bytes / kTile;  // columns from line to line
    for (std::int64_t line = 0; line < row_bytes; line += 64) {
      for (int r = 0; r < kTile; ++r) {
        __builtin_prefetch(static_cast<const char*>(next[r]) + line, 0, 2);
        for (std::int64_t i = 0; i < between && d < dim; ++i, ++d) {
          add_lanes<kTile>(acc, rows + d, stride, q + d * kLanes);
        }
      }
    }
  }
  for (; d < dim; ++d) add_lanes<kTile>(acc, rows + d, stride, q + d * kLanes);
  QUERN_UNROLL for (int r = 0; r < kTile; ++r) {
    _mm256_storeu_ps(out + r * kLanes, acc[r][0]);
    _mm256_storeu_ps(out + r * kLanes + 8, acc[r][1]);
  }
}

// R columns × 16 lanes: out = out · shrink + Σ over n tokens of rows · p.
template <int R>
__attribute__((noinline)) void value_tile(const float* rows, std::int64_t stride, const float* p,
                                          int n, const float* shrink, float* out) {
  __m256 acc[R][2];
  QUERN_UNROLL for (int r = 0; r < R; ++r) {
    acc[r][0] = _mm256_mul_ps(_mm256_loadu_ps(out + r * kLanes), _mm256_loadu_ps(shrink));
    acc[r][1] = _mm256_mul_ps(_mm256_loadu_ps(out + r * kLanes + 8), _mm256_loadu_ps(shrink + 8));
  }
  for (int t = 0; t < n; ++t, rows += stride, p += kLanes) add_lanes<R>(acc, rows, 1, p);
  QUERN_UNROLL for (int r = 0; r < R; ++r) {
    _mm256_storeu_ps(out + r * kLanes, acc[r][0]);
    _mm256_storeu_ps(out + r * kLanes + 8, acc[r][1]);
  }
}

// 8 values of a row as f32.
struct Bf16 {
  static constexpr int kBytes = 2;
  QUERN_INLINE __m256 widen(const void* p) {
    const __m128i bits = _mm_loadu_si128(static_cast<const __m128i*>(p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(bits), 16));
  }
};
struct F32 {
  static constexpr int kBytes = 4;
  QUERN_INLINE __m256 widen(const void* p) { return _mm256_loadu_ps(static_cast<const float*>(p)); }
};
struct F8 {
  static constexpr int kBytes = 1;
  QUERN_INLINE __m256 widen(const void* p) {
    unsigned char bytes[16] = {};
    __builtin_memcpy(bytes, p, 8);
    const __m256 wide = _mm256_cvtph_ps(_mm256_castsi256_si128(halves_of_f8(bytes)));
    return _mm256_mul_ps(wide, _mm256_set1_ps(256.0f));
  }
};

template <typename Type>
QUERN_INLINE void widen_row(const void* row, std::int64_t dim, float* out) {
  const auto* from = static_cast<const char*>(row);
  std::int64_t d = 0;
  for (; d + 8 <= dim; d += 8) _mm256_storeu_ps(out + d, Type::widen(from + d * Type::kBytes));
  if (d == dim) return;
  char rest[32] = {};
  __builtin_memcpy(rest, from + d * Type::kBytes,
                   static_cast<std::size_t>((dim - d) * Type::kBytes));
  _mm256_storeu_ps(out + d, Type::widen(rest));
}

template <typename Type>
QUERN_INLINE void attend(const LatentArgs& args) {
  alignas(32) float scores[(kKeyBlock + kTile) * kLanes];
  alignas(32) float shrink[kLanes];
  const std::int64_t stride = (args.row_dim + 7) / 8 * 8, columns = latent_columns(args.latent_dim);
  auto* rows = reinterpret_cast<float*>(args.scratch);
  for (int t = 0; t < args.keys; ++t) {
    widen_row<Type>(args.rows[t], args.row_dim, rows + t * stride);
  }
  // What the last tile reads beyond the rows counts for nothing, but must be a number.
  __builtin_memset(rows + args.keys * stride, 0,
                   static_cast<std::size_t>(kTile * stride) * sizeof(float));
  for (int group = 0; group < args.groups; ++group) {
    const int n = visible_keys(args, group);
    if (n == 0) continue;
    const auto* q = reinterpret_cast<const float*>(args.q + group * lane_bytes(args.row_dim));
    for (int t = 0; t < n; t += kTile) {
      float* to = scores + t * kLanes;
      if (group == 0 && args.next != nullptr && t + kTile <= args.keys) {
        score_tile<true>(rows + t * stride, stride, q, args.row_dim, args.next + t,
                         args.row_dim * Type::kBytes, to);
      } else {
        score_tile<false>(rows + t * stride, stride, q, args.row_dim, nullptr, 0, to);
      }
    }
    softmax_lanes(scores, n, args.last + group * kLanes, args.maximum + group * kLanes,
                  args.sum + group * kLanes, shrink);
    float* out = args.out + group * columns * kLanes;
    std::int64_t c = 0;
    for (; c + kTile <= args.latent_dim; c += kTile) {
      value_tile<kTile>(rows + c, stride, scores, n, shrink, out + c * kLanes);
    }
    for (; c < args.latent_dim; ++c) {
      value_tile<1>(rows + c, stride, scores, n, shrink, out + c * kLanes);
    }
  }
}

}  // namespace

void attend_latent_bf16_avx2(const LatentArgs& args) { attend<Bf16>(args); }
void attend_latent_f32_avx2(const LatentArgs& args) { attend<F32>(args); }
void attend_latent_f8_avx2(const LatentArgs& args) { attend<F8>(args); }

void merge_lanes_avx2(float* maximum, float* sum, float* out, const float* other_maximum,
                      const float* other_sum, const float* other_out, std::int64_t columns) {
  for (int lane = 0; lane < kLanes; lane += 8) {
    const __m256 old = _mm256_loadu_ps(maximum + lane),
                 other = _mm256_loadu_ps(other_maximum + lane);
    const __m256 most = _mm256_max_ps(old, other);
    const __m256 none = _mm256_cmp_ps(most, _mm256_set1_ps(kMinusInfinity), _CMP_EQ_OQ);
    const __m256 top = _mm256_andnot_ps(none, most);
    const __m256 mine = avx2_exp2(_mm256_sub_ps(old, top));
    const __m256 theirs = avx2_exp2(_mm256_sub_ps(other, top));
    const __m256 kept = _mm256_mul_ps(_mm256_loadu_ps(sum + lane), mine);
    _mm256_storeu_ps(maximum + lane, most);
    _mm256_storeu_ps(sum + lane, _mm256_fmadd_ps(_mm256_loadu_ps(other_sum + lane), theirs, kept));
    for (std::int64_t i = lane; i < columns * kLanes; i += kLanes) {
      const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(out + i), mine);
      _mm256_storeu_ps(out + i, _mm256_fmadd_ps(_mm256_loadu_ps(other_out + i), theirs, scaled));
    }
  }
}

}  // namespace quern::kernels
