// Small AVX2 pieces that several kernel files share. Only for files built with the AVX2 flags;
// everything is forced inline, so that no copy of it can be linked elsewhere.
#pragma once

#include <immintrin.h>

#define QUERN_INLINE static inline __attribute__((always_inline))
#define QUERN_UNROLL _Pragma("GCC unroll 16")

namespace quern::kernels {
namespace {

QUERN_INLINE float avx2_horizontal_max(__m256 v) {
  __m128 h = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  h = _mm_max_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_max_ss(h, _mm_movehdup_ps(h)));
}

QUERN_INLINE float avx2_horizontal_sum(__m256 v) {
  __m128 h = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
  h = _mm_add_ps(h, _mm_movehl_ps(h, h));
  return _mm_cvtss_f32(_mm_add_ss(h, _mm_movehdup_ps(h)));
}

// 2^x for x ≤ 0: x = n + f with |f| ≤ 1/2, a polynomial of degree 5 in f, n added to the exponent.
// Exactly 1 at 0 and exactly 0 below −126 (a masked score is −inf); relative error ≤ 5.3e-7. A NaN
// stays a NaN: operand order matters in max and the comparison is "not less".
QUERN_INLINE __m256 avx2_exp2(__m256 x) {
  const __m256 limit = _mm256_set1_ps(-126.0f);
  const __m256 live = _mm256_cmp_ps(x, limit, _CMP_NLT_UQ);
  x = _mm256_max_ps(limit, x);
  const __m256 n = _mm256_round_ps(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  const __m256 f = _mm256_sub_ps(x, n);
  __m256 p = _mm256_set1_ps(0.0013390863f);
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.0096721343f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.055503406f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.24022350f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(0.69314718f));
  p = _mm256_fmadd_ps(p, f, _mm256_set1_ps(1.0f));
  const __m256i exponent = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
  const __m256 scaled = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), exponent));
  return _mm256_and_ps(scaled, live);
}

QUERN_INLINE float avx2_exp2_one(float x) { return _mm256_cvtss_f32(avx2_exp2(_mm256_set1_ps(x))); }

}  // namespace
}  // namespace quern::kernels
