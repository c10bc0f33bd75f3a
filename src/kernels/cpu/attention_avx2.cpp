// One block of keys against up to 6 query rows on AVX2. Scores: lanes are tokens, summed over dims
// in order. Values: lanes are dims, summed over tokens in order. Both read the page as it lies:
// a 32-bit lane is a bf16 pair, widened by one shift or one mask. A row's bits do not depend on the
// other rows: a masked key has p = 0 exactly.

#include "kernels/cpu/attention_block.h"
#include "kernels/cpu/avx2_ops.h"

namespace quern::kernels {
namespace {

// Loads of one pair row: `lanes` values for the even member, then the odd one.
struct Bf16Pairs {
  using Element = unsigned short;
  QUERN_INLINE __m256 even(const Element* p, std::int64_t, int v) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(raw(p + 16 * v), 16));
  }
  QUERN_INLINE __m256 odd(const Element* p, std::int64_t, int v) {
    return _mm256_castsi256_ps(
        _mm256_and_si256(raw(p + 16 * v), _mm256_set1_epi32(static_cast<int>(0xFFFF0000u))));
  }
  QUERN_INLINE __m256i raw(const Element* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static constexpr int kLaneElements = 2;  // elements between neighbouring lanes
};

struct F32Pairs {
  using Element = float;
  QUERN_INLINE __m256 even(const Element* p, std::int64_t, int v) {
    return _mm256_loadu_ps(p + 8 * v);
  }
  QUERN_INLINE __m256 odd(const Element* p, std::int64_t lanes, int v) {
    return _mm256_loadu_ps(p + lanes + 8 * v);
  }
  static constexpr int kLaneElements = 1;
};

// acc[r] += Σ over `pairs` pair rows of x[r][2i], x[r][2i+1] times 16 lanes at p.
template <typename Pairs, int R, bool kFetch>
QUERN_INLINE void accumulate(__m256 (&acc)[R][2], const float* x, std::int64_t x_stride,
                             const typename Pairs::Element* p, const void* next, std::int64_t lanes,
                             std::int64_t pairs) {
  const std::int64_t ahead =
      kFetch ? static_cast<const char*>(next) - reinterpret_cast<const char*>(p) : 0;
  for (std::int64_t i = 0; i < pairs; ++i, p += 2 * lanes, x += 2) {
    if (kFetch) {
      const char* line = reinterpret_cast<const char*>(p) + ahead;
      __builtin_prefetch(line, 0, 2);
      if (Pairs::kLaneElements == 1) __builtin_prefetch(line + lanes * sizeof(*p), 0, 2);
    }
    const __m256 even0 = Pairs::even(p, lanes, 0), even1 = Pairs::even(p, lanes, 1);
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      const __m256 value = _mm256_broadcast_ss(x + r * x_stride);
      acc[r][0] = _mm256_fmadd_ps(value, even0, acc[r][0]);
      acc[r][1] = _mm256_fmadd_ps(value, even1, acc[r][1]);
    }
    const __m256 odd0 = Pairs::odd(p, lanes, 0), odd1 = Pairs::odd(p, lanes, 1);
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      const __m256 value = _mm256_broadcast_ss(x + r * x_stride + 1);
      acc[r][0] = _mm256_fmadd_ps(value, odd0, acc[r][0]);
      acc[r][1] = _mm256_fmadd_ps(value, odd1, acc[r][1]);
    }
  }
}

template <typename Pairs, int R, bool kFetch>
__attribute__((noinline)) void attend(const AttendArgs& args) {
  using Element = typename Pairs::Element;
  alignas(32) float scores[R][kKeyBlock];
  const Slabs slabs = visible_slabs(args, R);
  if (slabs.begin >= slabs.end) return;
  for (int g = slabs.begin; g < slabs.end; ++g) {
    __m256 acc[R][2];
    QUERN_UNROLL for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_ps();
    accumulate<Pairs, R, kFetch>(acc, args.q, args.key_stride,
                                 static_cast<const Element*>(args.keys[g]), args.next_keys[g],
                                 kSlab, args.key_stride / 2);
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      _mm256_store_ps(&scores[r][g * kSlab], acc[r][0]);
      _mm256_store_ps(&scores[r][g * kSlab + 8], acc[r][1]);
    }
  }
  float shrink[R];
  for (int r = 0; r < R; ++r) {
    shrink[r] = softmax_row(scores[r], slabs.begin * kSlab, slabs.end * kSlab, args.first[r],
                            args.last[r], args.soft_cap, args.maximum + r, args.sum + r);
  }
  for (std::int64_t d = 0; d < args.value_stride; d += 16) {
    __m256 acc[R][2];
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      const float* out = args.out + r * args.value_stride + d;
      acc[r][0] = _mm256_mul_ps(_mm256_loadu_ps(out), _mm256_set1_ps(shrink[r]));
      acc[r][1] = _mm256_mul_ps(_mm256_loadu_ps(out + 8), _mm256_set1_ps(shrink[r]));
    }
    for (int g = slabs.begin; g < slabs.end; ++g) {
      const std::int64_t at = d * Pairs::kLaneElements;
      const auto* next = static_cast<const Element*>(args.next_values[g]);
      accumulate<Pairs, R, kFetch>(acc, &scores[0][g * kSlab], kKeyBlock,
                                   static_cast<const Element*>(args.values[g]) + at,
                                   kFetch ? next + at : nullptr, args.value_stride, kSlab / 2);
    }
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      float* out = args.out + r * args.value_stride + d;
      _mm256_storeu_ps(out, acc[r][0]);
      _mm256_storeu_ps(out + 8, acc[r][1]);
    }
  }
}

template <typename Pairs, bool kFetch>
QUERN_INLINE void attend_rows(const AttendArgs& args, int rows) {
  switch (rows) {
    case 1: attend<Pairs, 1, kFetch>(args); break;
    case 2: attend<Pairs, 2, kFetch>(args); break;
    case 3: attend<Pairs, 3, kFetch>(args); break;
    case 4: attend<Pairs, 4, kFetch>(args); break;
    case 5: attend<Pairs, 5, kFetch>(args); break;
    case 6: attend<Pairs, 6, kFetch>(args); break;
    default: break;
  }
}

template <typename Pairs>
QUERN_INLINE void attend_any(const AttendArgs& args, int rows) {
  if (args.next_keys[0] != nullptr) {
    attend_rows<Pairs, true>(args, rows);
  } else {
    attend_rows<Pairs, false>(args, rows);
  }
}

}  // namespace

void attend_bf16_avx2(const AttendArgs& args, int rows) { attend_any<Bf16Pairs>(args, rows); }
void attend_f32_avx2(const AttendArgs& args, int rows) { attend_any<F32Pairs>(args, rows); }

void merge_avx2(float* maximum, float* sum, float* out, float other_maximum, float other_sum,
                const float* other_out, std::int64_t dim) {
  const float top = *maximum > other_maximum ? *maximum : other_maximum;
  const float mine = avx2_exp2_one(*maximum - top), theirs = avx2_exp2_one(other_maximum - top);
  *maximum = top;
  *sum = __builtin_fmaf(other_sum, theirs, *sum * mine);
  for (std::int64_t d = 0; d < dim; d += 8) {
    const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(out + d), _mm256_set1_ps(mine));
    _mm256_storeu_ps(
        out + d, _mm256_fmadd_ps(_mm256_loadu_ps(other_out + d), _mm256_set1_ps(theirs), scaled));
  }
}

}  // namespace quern::kernels
