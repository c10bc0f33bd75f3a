// Norms and activations on AVX2, and the AVX2 table.

#include "kernels/cpu/avx2_math.h"
#include "kernels/cpu/avx2_ops.h"
#include "kernels/dispatch.h"
#include "kernels/ref/ref_ops.h"

namespace quern::kernels {
namespace {

constexpr float kLog2E = 1.44269504088896340736f;

// x · sigmoid(x), by the exponential of −|x| so that nothing overflows.
QUERN_INLINE __m256 silu(__m256 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f), one = _mm256_set1_ps(1.0f);
  const __m256 e = avx2_exp2(_mm256_mul_ps(_mm256_or_ps(x, sign), _mm256_set1_ps(kLog2E)));
  const __m256 numerator = _mm256_blendv_ps(one, e, x);  // the sign bit of x selects e
  return _mm256_mul_ps(x, _mm256_div_ps(numerator, _mm256_add_ps(one, e)));
}

// Loads and stores of fewer than 8 values.
QUERN_INLINE __m256i tail_mask(std::int64_t count) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(count)), lane);
}

}  // namespace

void rms_norm_avx2(const float* x, const float* weight, float eps, std::int64_t rows,
                   std::int64_t dim, float* out) {
  const std::int64_t whole = dim / 8 * 8;
  const __m256i mask = tail_mask(dim - whole);
  for (std::int64_t row = 0; row < rows; ++row, x += dim, out += dim) {
    __m256 squares = _mm256_setzero_ps();
    for (std::int64_t i = 0; i < whole; i += 8) {
      const __m256 v = _mm256_loadu_ps(x + i);
      squares = _mm256_fmadd_ps(v, v, squares);
    }
    const __m256 rest = _mm256_maskload_ps(x + whole, mask);
    squares = _mm256_fmadd_ps(rest, rest, squares);
    const float mean = avx2_horizontal_sum(squares) / static_cast<float>(dim);
    const __m256 scale = _mm256_set1_ps(1.0f / __builtin_sqrtf(mean + eps));
    for (std::int64_t i = 0; i < whole; i += 8) {
      const __m256 scaled = _mm256_mul_ps(_mm256_loadu_ps(x + i), scale);
      _mm256_storeu_ps(out + i, _mm256_mul_ps(scaled, _mm256_loadu_ps(weight + i)));
    }
    _mm256_maskstore_ps(
        out + whole, mask,
        _mm256_mul_ps(_mm256_mul_ps(rest, scale), _mm256_maskload_ps(weight + whole, mask)));
  }
}

void add_avx2(float* x, const float* y, std::int64_t count) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(x + i, _mm256_add_ps(_mm256_loadu_ps(x + i), _mm256_loadu_ps(y + i)));
  }
  for (; i < count; ++i) x[i] += y[i];
}

void silu_mul_avx2(const float* gate, const float* up, std::int64_t count, float* out) {
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m256 value = silu(_mm256_loadu_ps(gate + i));
    _mm256_storeu_ps(out + i, _mm256_mul_ps(value, _mm256_loadu_ps(up + i)));
  }
  const __m256i mask = tail_mask(count - i);
  const __m256 value = silu(_mm256_maskload_ps(gate + i, mask));
  _mm256_maskstore_ps(out + i, mask, _mm256_mul_ps(value, _mm256_maskload_ps(up + i, mask)));
}

float maximum_avx2(const float* x, std::int64_t count) {
  if (count < 8) return maximum_ref(x, count);
  __m256 most = _mm256_loadu_ps(x), strange = _mm256_cmp_ps(most, most, _CMP_UNORD_Q);
  // The last eight may be seen twice: that changes no maximum.
  for (std::int64_t i = 8; i < count; i += 8) {
    const __m256 v = _mm256_loadu_ps(x + (i + 8 <= count ? i : count - 8));
    most = _mm256_max_ps(most, v);
    strange = _mm256_or_ps(strange, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
  }
  return _mm256_movemask_ps(strange) != 0 ? __builtin_nanf("") : avx2_horizontal_max(most);
}

void exponentials_avx2(const float* x, float most, float scale, std::int64_t count, float* out) {
  const __m256 shift = _mm256_set1_ps(most), factor = _mm256_set1_ps(scale);
  const auto power = [&](__m256 v) { return _mm256_mul_ps(_mm256_sub_ps(v, shift), factor); };
  std::int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    _mm256_storeu_ps(out + i, avx2_exp2(power(_mm256_loadu_ps(x + i))));
  }
  const __m256i mask = tail_mask(count - i);
  _mm256_maskstore_ps(out + i, mask, avx2_exp2(power(_mm256_maskload_ps(x + i, mask))));
}

const Ops kAvx2Ops = {
    .isa = Isa::kAvx2,
    .name = "avx2",
    .prepare = {prepare_f32_ref, prepare_bf16_avx2, prepare_int8_avx2},
    .multiply = {multiply_f32_avx2, multiply_f16_avx2, multiply_bf16_avx2, multiply_q4_avx2,
                 multiply_q8_avx2, multiply_q8sub_avx2, multiply_q5_avx2, multiply_q6_avx2},
    .attend_bf16 = attend_bf16_avx2,
    .attend_f32 = attend_f32_avx2,
    .merge = merge_avx2,
    .latent = {{pack_lanes_f32_ref, attend_latent_bf16_avx2},
               {pack_lanes_f32_ref, attend_latent_f32_avx2},
               {pack_lanes_f32_ref, attend_latent_f8_avx2}},
    .merge_lanes = merge_lanes_avx2,
    .pack_keys_bf16 = pack_lanes_bf16_ref,
    .pack_keys_f32 = pack_lanes_f32_ref,
    .pack_values_bf16 = pack_values_bf16_ref,
    .widen_keys_i8 = widen_keys_i8_avx2,
    .widen_values_i8 = widen_values_i8_avx2,
    .widen_f8 = widen_f8_avx2,
    .rms_norm = rms_norm_avx2,
    .add = add_avx2,
    .silu_mul = silu_mul_avx2,
    .maximum = maximum_avx2,
    .exponentials = exponentials_avx2,
};

}  // namespace quern::kernels
