// Widening 8-bit slabs of the KV cache to bf16 with AVX2. A slab's scales repeat every 32 values:
// they stand in four registers, or two where a row of value pairs has only two tokens. Bound by the
// arithmetic, some 10 instructions for 8 values.
#include <immintrin.h>

#include "kernels/cpu/avx2_ops.h"
#include "kernels/cpu/mla_block.h"

namespace quern::kernels {
namespace {

// To nearest, ties to even, in the upper halves. A NaN here has no bits there to be carried out of.
__m256i rounded(__m256 x) {
  const __m256i bits = _mm256_castps_si256(x);
  const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
  const __m256i sum = _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
  return _mm256_srli_epi32(sum, 16);
}

__m256 wide(const std::byte* x) {
  const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(x));
  return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
}

// 16 values times 16 scales.
void widen_16(const std::byte* x, __m256 low, __m256 high, std::byte* out) {
  const __m256i a = rounded(_mm256_mul_ps(wide(x), low));
  const __m256i b = rounded(_mm256_mul_ps(wide(x + 8), high));
  const __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(out), both);
}

}  // namespace

void widen_keys_i8_avx2(const std::byte* x, const float* scales, std::int64_t stride,
                        std::byte* out) {
  __m256 scale[4];
  const __m256i twice = _mm256_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3);
  for (int i = 0; i < 4; ++i) {
    const __m256 four = _mm256_castps128_ps256(_mm_loadu_ps(scales + 4 * i));
    scale[i] = _mm256_permutevar8x32_ps(four, twice);
  }
  for (std::int64_t i = 0; i < kSlab * stride; i += 32) {
    widen_16(x + i, scale[0], scale[1], out + 2 * i);
    widen_16(x + i + 16, scale[2], scale[3], out + 2 * i + 32);
  }
}

void widen_values_i8_avx2(const std::byte* x, const float* scales, std::int64_t stride,
                          std::byte* out) {
  for (int pair = 0; pair < kSlab / 2; ++pair) {
    const float a = scales[2 * pair], b = scales[2 * pair + 1];
    const __m256 scale = _mm256_setr_ps(a, b, a, b, a, b, a, b);
    for (std::int64_t i = pair * 2 * stride; i < (pair + 1) * 2 * stride; i += 16) {
      widen_16(x + i, scale, scale, out + 2 * i);
    }
  }
}

void widen_f8_avx2(const std::byte* x, std::int64_t count, std::byte* out) {
  const __m256 grow = _mm256_set1_ps(256.0f);
  for (std::int64_t i = 0; i < count; i += 16) {
    const __m256i halves = halves_of_f8(x + i);
    const auto part = [&](__m128i eight) {
      const __m256 value = _mm256_mul_ps(_mm256_cvtph_ps(eight), grow);
      return _mm256_srli_epi32(_mm256_castps_si256(value), 16);  // exact: three bits of fraction
    };
    const __m256i a = part(_mm256_castsi256_si128(halves));
    const __m256i b = part(_mm256_extracti128_si256(halves, 1));
    const __m256i both = _mm256_permute4x64_epi64(_mm256_packus_epi32(a, b), 0xD8);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + 2 * i), both);
  }
}

}  // namespace quern::kernels
