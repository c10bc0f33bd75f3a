// What the AVX2 matmul kernels share: tiles of R rows × 16 outputs, two registers of 8 each. Only
// for files built with the AVX2 flags.
#pragma once

#include "kernels/cpu/avx2_math.h"
#include "kernels/cpu/row_tiles.h"

namespace quern::kernels {
namespace {

// GCC 12 computes all products of a block first and spills them, at half the speed. This empty
// statement "changes" the sum, so that it stays where it is written.
QUERN_INLINE void keep(__m256i& v) { asm volatile("" : "+x"(v)); }

QUERN_INLINE __m256i load(const std::byte* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}

QUERN_INLINE __m256 load_half(const std::byte* p) {
  return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
}

QUERN_INLINE __m256 load_float(const std::byte* p) {
  return _mm256_loadu_ps(reinterpret_cast<const float*>(p));
}

QUERN_INLINE __m256i quad(const Int8Block* x, int index) {
  int value;
  __builtin_memcpy(&value, x->q + 4 * index, 4);
  return _mm256_set1_epi32(value);
}

template <int R>
QUERN_INLINE void zero(__m256 (&acc)[R][2]) {
  QUERN_UNROLL for (int r = 0; r < R; ++r) acc[r][0] = acc[r][1] = _mm256_setzero_ps();
}

template <int R>
QUERN_INLINE void store(const __m256 (&acc)[R][2], float* out) {
  QUERN_UNROLL for (int r = 0; r < R; ++r) {
    _mm256_store_ps(out + r * kPanel, acc[r][0]);
    _mm256_store_ps(out + r * kPanel + 8, acc[r][1]);
  }
}

}  // namespace
}  // namespace quern::kernels
