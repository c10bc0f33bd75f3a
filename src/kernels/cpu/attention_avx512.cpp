// One block of keys against up to 6 query rows with vdpbf16ps (AVX-512 BF16): the page's bf16 pairs
// are multiplied as they lie, two products an instruction, with queries and probabilities rounded
// to bf16. Scores: lanes are 16 tokens, a slab. Values: lanes are 16 dims. Bound by the multiplier;
// f32 fmas would need two of them and a widening for each.

#include "kernels/cpu/attention_block.h"
#include "kernels/cpu/avx2_ops.h"
#include "kernels/cpu/avx512_intrinsics.h"
#include "kernels/cpu/avx512_ops.h"

namespace quern::kernels {
namespace {

constexpr std::int64_t kMostKeyDims = 640;  // of the stack buffer; MLA's latent has 576

QUERN_INLINE __m512i load(const void* slab, std::int64_t pair) {
  return _mm512_loadu_si512(static_cast<const unsigned*>(slab) + pair);
}

QUERN_INLINE __m512 multiply_add(__m512 acc, __m512i a, unsigned pair) {
  const __m512i b = _mm512_set1_epi32(static_cast<int>(pair));
  return _mm512_dpbf16_ps(acc, (__m512bh)a, (__m512bh)b);
}

// A line of the next block for every line of this one, so that no burst fills the miss buffers. Into
// the second cache: two blocks of 16 KiB would drive each other out of the first.
QUERN_INLINE void fetch(const void* slab, std::int64_t pair) {
  __builtin_prefetch(static_cast<const unsigned*>(slab) + pair, 0, 2);
}

// Scores of N neighbouring slabs.
template <int R, int N, bool kFetch>
QUERN_INLINE void score(const AttendArgs& args, int slab, const unsigned (&q)[R][kMostKeyDims / 2],
                        float (&scores)[R][kKeyBlock]) {
  __m512 acc[R][N];
  QUERN_UNROLL for (int r = 0; r < R; ++r) {
    QUERN_UNROLL for (int n = 0; n < N; ++n) acc[r][n] = _mm512_setzero_ps();
  }
  for (std::int64_t i = 0; i < args.key_stride / 2; ++i) {
    __m512i keys[N];
    QUERN_UNROLL for (int n = 0; n < N; ++n) {
      keys[n] = load(args.keys[slab + n], i * kSlab);
      if (kFetch) fetch(args.next_keys[slab + n], i * kSlab);
    }
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      QUERN_UNROLL for (int n = 0; n < N; ++n) acc[r][n] =
          multiply_add(acc[r][n], keys[n], q[r][i]);
    }
  }
  QUERN_UNROLL for (int r = 0; r < R; ++r) {
    QUERN_UNROLL for (int n = 0; n < N; ++n) {
      _mm512_storeu_ps(&scores[r][(slab + n) * kSlab], acc[r][n]);
    }
  }
}

// out = out · shrink + p · V for dims [dim, dim + 16·N).
template <int R, int N, bool kFetch>
QUERN_INLINE void weigh(const AttendArgs& args, Slabs slabs, std::int64_t dim,
                        const unsigned (&p)[R][kKeyBlock / 2], const float (&shrink)[R]) {
  __m512 acc[R][N];
  QUERN_UNROLL for (int r = 0; r < R; ++r) {
    QUERN_UNROLL for (int n = 0; n < N; ++n) {
      const float* out = args.out + r * args.value_stride + dim + 16 * n;
      acc[r][n] = _mm512_mul_ps(_mm512_loadu_ps(out), _mm512_set1_ps(shrink[r]));
    }
  }
  for (int slab = slabs.begin; slab < slabs.end; ++slab) {
    for (int pair = 0; pair < kSlab / 2; ++pair) {
      __m512i values[N];
      QUERN_UNROLL for (int n = 0; n < N; ++n) {
        const std::int64_t at = pair * args.value_stride + dim + 16 * n;
        values[n] = load(args.values[slab], at);
        if (kFetch) fetch(args.next_values[slab], at);
      }
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        const unsigned weight = p[r][slab * kSlab / 2 + pair];
        QUERN_UNROLL for (int n = 0; n < N; ++n) {
          acc[r][n] = multiply_add(acc[r][n], values[n], weight);
        }
      }
    }
  }
  QUERN_UNROLL for (int r = 0; r < R; ++r) {
    QUERN_UNROLL for (int n = 0; n < N; ++n) {
      _mm512_storeu_ps(args.out + r * args.value_stride + dim + 16 * n, acc[r][n]);
    }
  }
}

template <int R, bool kFetch>
__attribute__((noinline)) void attend(const AttendArgs& args) {
  alignas(64) float scores[R][kKeyBlock];
  alignas(64) unsigned q[R][kMostKeyDims / 2];
  alignas(64) unsigned p[R][kKeyBlock / 2];
  const Slabs slabs = visible_slabs(args, R);
  if (slabs.begin >= slabs.end) return;
  for (int r = 0; r < R; ++r) avx512_to_pairs(args.q + r * args.key_stride, args.key_stride, q[r]);
  int slab = slabs.begin;
  for (; slab + 2 <= slabs.end; slab += 2) score<R, 2, kFetch>(args, slab, q, scores);
  if (slab < slabs.end) score<R, 1, kFetch>(args, slab, q, scores);
  float shrink[R];
  for (int r = 0; r < R; ++r) {
    shrink[r] = softmax_row(scores[r], slabs.begin * kSlab, slabs.end * kSlab, args.first[r],
                            args.last[r], args.soft_cap, args.maximum + r, args.sum + r);
    const int begin = slabs.begin * kSlab;
    avx512_to_pairs(scores[r] + begin, (slabs.end - slabs.begin) * kSlab, p[r] + begin / 2);
  }
  std::int64_t dim = 0;
  for (; dim + 32 <= args.value_stride; dim += 32) weigh<R, 2, kFetch>(args, slabs, dim, p, shrink);
  if (dim < args.value_stride) weigh<R, 1, kFetch>(args, slabs, dim, p, shrink);
}

template <bool kFetch>
QUERN_INLINE void attend_rows(const AttendArgs& args, int rows) {
  switch (rows) {
    case 1: attend<1, kFetch>(args); break;
    case 2: attend<2, kFetch>(args); break;
    case 3: attend<3, kFetch>(args); break;
    case 4: attend<4, kFetch>(args); break;
    case 5: attend<5, kFetch>(args); break;
    case 6: attend<6, kFetch>(args); break;
    default: break;
  }
}

}  // namespace

void attend_bf16_avx512(const AttendArgs& args, int rows) {
  if (args.key_stride > kMostKeyDims) return attend_bf16_avx2(args, rows);
  if (args.next_keys[0] != nullptr) {
    attend_rows<true>(args, rows);
  } else {
    attend_rows<false>(args, rows);
  }
}

}  // namespace quern::kernels
