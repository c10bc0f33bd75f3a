// The AVX-512 intrinsics: the compiler's, or SIMDe's portable bodies where a test runs these
// kernels on a processor without AVX-512. SIMDe 0.7.4 lacks five of them; they stand here.
#pragma once

#if defined(QUERN_SIMDE)
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

static inline __m512 quern_simde_cvtph_ps(__m256i half) {
  float values[16];
  _mm256_storeu_ps(values, _mm256_cvtph_ps(_mm256_castsi256_si128(half)));
  _mm256_storeu_ps(values + 8, _mm256_cvtph_ps(_mm256_extracti128_si256(half, 1)));
  return _mm512_loadu_ps(values);
}

static inline __m512 quern_simde_cvtepi32_ps(__m512i integers) {
  int from[16];
  float values[16];
  _mm512_storeu_si512(from, integers);
  for (int i = 0; i < 16; ++i) values[i] = static_cast<float>(from[i]);
  return _mm512_loadu_ps(values);
}
// To nearest, ties to even; a NaN stays a NaN.
static inline __m256i avx512_round_to_bf16(__m512 floats) {
  float from[16];
  unsigned short bits[16];
  _mm512_storeu_ps(from, floats);
  for (int i = 0; i < 16; ++i) {
    unsigned word;
    __builtin_memcpy(&word, from + i, 4);
    const bool nan = (word & 0x7FFFFFFFu) > 0x7F800000u;
    bits[i] = static_cast<unsigned short>(
        (nan ? word | 0x400000u : word + 0x7FFFu + (word >> 16 & 1u)) >> 16);
  }
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(bits));
}
static inline __m512i quern_simde_cvtepu16_epi32(__m256i halves) {
  unsigned short from[16];
  unsigned words[16];
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(from), halves);
  for (int i = 0; i < 16; ++i) words[i] = from[i];
  return _mm512_loadu_si512(words);
}
static inline __m512i quern_simde_cvtepi8_epi32(__m128i bytes) {
  signed char from[16];
  int words[16];
  _mm_storeu_si128(reinterpret_cast<__m128i*>(from), bytes);
  for (int i = 0; i < 16; ++i) words[i] = from[i];
  return _mm512_loadu_si512(words);
}
#undef _mm512_cvtepi8_epi32
#define _mm512_cvtepi8_epi32 quern_simde_cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtph_ps
#undef _mm512_cvtepi32_ps
#define _mm512_cvtepu16_epi32 quern_simde_cvtepu16_epi32
#define _mm512_cvtph_ps quern_simde_cvtph_ps
#define _mm512_cvtepi32_ps quern_simde_cvtepi32_ps
#else
#include <immintrin.h>

static inline __attribute__((always_inline)) __m256i avx512_round_to_bf16(__m512 floats) {
  return (__m256i)_mm512_cvtneps_pbh(floats);
}
#endif

// Pairs of bf16 as 32-bit words: out[i] = {x[2i], x[2i+1]}. `count` is a multiple of 16.
static inline __attribute__((always_inline)) void avx512_to_pairs(const float* x, long count,
                                                                  unsigned* out) {
  for (long i = 0; i < count; i += 16) {
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i / 2),
                        avx512_round_to_bf16(_mm512_loadu_ps(x + i)));
  }
}
