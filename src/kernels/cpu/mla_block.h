// What the vector kernels of latent attention share: the running softmax of 16 lanes, which needs
// no horizontal step, and fp8_e4m3 made wider. Only for files built with at least the AVX2 flags.
#pragma once

#include "kernels/cpu/avx2_math.h"
#include "kernels/ops.h"

namespace quern::kernels {
namespace {

constexpr float kMinusInfinity = -__builtin_inff();

// Keys [0, n) of the block that some lane of the group sees.
QUERN_INLINE int visible_keys(const LatentArgs& args, int group) {
  int most = 0;
  for (int lane = 0; lane < kLanes; ++lane) {
    const int last = args.last[group * kLanes + lane];
    if (last > most) most = last;
  }
  return most < args.keys ? most : args.keys;
}

// Turns scores [n, 16] into probabilities; shrink [16] is what the old result shrinks by. A lane
// that has not seen any key yet keeps −inf as its maximum, and gets zeros.
QUERN_INLINE void softmax_lanes(float* scores, int n, const int* last, float* maximum, float* sum,
                                float* shrink) {
  const __m256 nothing = _mm256_set1_ps(kMinusInfinity);
  for (int lane = 0; lane < kLanes; lane += 8) {
    const __m256i visible = _mm256_loadu_si256(reinterpret_cast<const __m256i*>(last + lane));
    const __m256 old = _mm256_loadu_ps(maximum + lane);
    __m256 most = old;
    for (int t = 0; t < n; ++t) {
      float* score = scores + t * kLanes + lane;
      const __m256 seen = _mm256_castsi256_ps(_mm256_cmpgt_epi32(visible, _mm256_set1_epi32(t)));
      const __m256 masked = _mm256_blendv_ps(nothing, _mm256_loadu_ps(score), seen);
      most = _mm256_max_ps(most, masked);
      _mm256_storeu_ps(score, masked);
    }
    const __m256 none = _mm256_cmp_ps(most, nothing, _CMP_EQ_OQ);
    const __m256 top = _mm256_andnot_ps(none, most);
    __m256 total = _mm256_setzero_ps();
    for (int t = 0; t < n; ++t) {
      float* score = scores + t * kLanes + lane;
      const __m256 p = avx2_exp2(_mm256_sub_ps(_mm256_loadu_ps(score), top));
      total = _mm256_add_ps(total, p);
      _mm256_storeu_ps(score, p);
    }
    const __m256 factor = avx2_exp2(_mm256_sub_ps(old, top));
    _mm256_storeu_ps(maximum + lane, most);
    _mm256_storeu_ps(sum + lane, _mm256_fmadd_ps(_mm256_loadu_ps(sum + lane), factor, total));
    _mm256_storeu_ps(shrink + lane, factor);
  }
}

// 16 fp8_e4m3 values as halves of a 256th of their size: a half has the same fields, the exponent
// a bit longer.
QUERN_INLINE __m256i halves_of_f8(const void* from) {
  const __m256i wide =
      _mm256_cvtepu8_epi16(_mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
  const __m256i size = _mm256_and_si256(wide, _mm256_set1_epi16(0x7F));
  const __m256i sign = _mm256_slli_epi16(_mm256_andnot_si256(_mm256_set1_epi16(0x7F), wide), 8);
  const __m256i nan = _mm256_cmpeq_epi16(size, _mm256_set1_epi16(0x7F));
  const __m256i bits = _mm256_or_si256(_mm256_slli_epi16(size, 7), _mm256_srli_epi16(nan, 1));
  return _mm256_or_si256(bits, sign);
}

}  // namespace
}  // namespace quern::kernels
