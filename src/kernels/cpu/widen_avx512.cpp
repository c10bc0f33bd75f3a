// Widening int8 slabs of the KV cache to bf16 with AVX-512 BF16: 32 values by two conversions, two
// products and two roundings.
#include "kernels/cpu/avx512_intrinsics.h"
#include "kernels/cpu/avx512_ops.h"

namespace quern::kernels {
namespace {

__m512 wide(const std::byte* x) {
  const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(x));
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(bytes));
}

void widen_32(const std::byte* x, __m512 low, __m512 high, std::byte* out) {
  auto* to = reinterpret_cast<__m256i*>(out);
  _mm256_storeu_si256(to, avx512_round_to_bf16(_mm512_mul_ps(wide(x), low)));
  _mm256_storeu_si256(to + 1, avx512_round_to_bf16(_mm512_mul_ps(wide(x + 16), high)));
}

}  // namespace

void widen_keys_i8_avx512(const std::byte* x, const float* scales, std::int64_t stride,
                          std::byte* out) {
  const __m512i twice = _mm512_setr_epi32(0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7);
  const __m512 all = _mm512_loadu_ps(scales);
  const __m512 low = _mm512_permutexvar_ps(twice, all);
  const __m512 high = _mm512_permutexvar_ps(_mm512_add_epi32(twice, _mm512_set1_epi32(8)), all);
  for (std::int64_t i = 0; i < kSlab * stride; i += 32) widen_32(x + i, low, high, out + 2 * i);
}

void widen_values_i8_avx512(const std::byte* x, const float* scales, std::int64_t stride,
                            std::byte* out) {
  for (int pair = 0; pair < kSlab / 2; ++pair) {
    const __m512 even = _mm512_set1_ps(scales[2 * pair]);
    const __m512 scale = _mm512_mask_mov_ps(even, 0xAAAA, _mm512_set1_ps(scales[2 * pair + 1]));
    for (std::int64_t i = pair * 2 * stride; i < (pair + 1) * 2 * stride; i += 32) {
      widen_32(x + i, scale, scale, out + 2 * i);
    }
  }
}

}  // namespace quern::kernels
