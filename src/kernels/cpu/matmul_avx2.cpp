// Matmul of floats and 8-bit weights on AVX2 + FMA + F16C: tiles of up to 4 rows × 16 outputs (6
// rows of floats: twelve sums in flight hide the time that an fma takes), lanes over outputs, K in
// order. 8-bit weights: vpmaddubsw of |w| and the activation with w's sign, widened at once. A
// single row is bound by DRAM: panels are prefetched ahead of their use. matmul_planes_avx2.cpp has
// the weights of fewer bits.

#include "kernels/cpu/matmul_avx2.h"
#include "kernels/cpu/avx2_ops.h"

namespace quern::kernels {
namespace {

// Adds the products of `kQuads` quads of int8 weights to 32-bit sums.
template <int R, int kQuads>
QUERN_INLINE void add_quads(const std::byte* quads, const std::byte* x, std::int64_t stride,
                            std::int64_t b, int first_quad, __m256i (&sum)[R][2]) {
  const __m256i ones = _mm256_set1_epi16(1);
  QUERN_UNROLL for (int q = first_quad; q < first_quad + kQuads; ++q) {
    QUERN_UNROLL for (int v = 0; v < 2; ++v) {
      const __m256i weights = load(quads + 64 * q + 32 * v);
      const __m256i magnitude = _mm256_abs_epi8(weights);
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        const __m256i signed_x = _mm256_sign_epi8(quad(block_of(x, stride, r, b), q), weights);
        const __m256i pairs = _mm256_maddubs_epi16(magnitude, signed_x);
        sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(pairs, ones));
        keep(sum[r][v]);
      }
    }
  }
}

struct Q8Kernel {
  static constexpr int kRows = 4, kPanels = 1;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t, const std::byte* x, std::int64_t stride,
                         std::int64_t k, float* out) {
    __m256 acc[R][2];
    zero(acc);
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += 544) {
      if (kFirst) fetch_lines(w + kAhead, 9);
      __m256i sum[R][2];
      QUERN_UNROLL for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
      add_quads<R, 8>(w + 32, x, stride, b, 0, sum);
      QUERN_UNROLL for (int v = 0; v < 2; ++v) {
        const __m256 d = load_half(w + 16 * v);
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(block_of(x, stride, r, b)->scale));
          acc[r][v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r][v]), scale, acc[r][v]);
        }
      }
    }
    store(acc, out);
  }
};

struct Q8SubKernel {
  static constexpr int kRows = 4, kPanels = 1;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t, const std::byte* x, std::int64_t stride,
                         std::int64_t k, float* out) {
    __m256 acc[R][2];
    zero(acc);
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += 704) {
      if (kFirst) fetch_lines(w + kAhead, 11);
      QUERN_UNROLL for (int half = 0; half < 2; ++half) {
        __m256i sum[R][2];
        QUERN_UNROLL for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
        add_quads<R, 4>(w + 192, x, stride, b, 4 * half, sum);
        QUERN_UNROLL for (int v = 0; v < 2; ++v) {
          const __m256 s = load_float(w + 64 * half + 32 * v);
          QUERN_UNROLL for (int r = 0; r < R; ++r) {
            const __m256 scale = _mm256_mul_ps(s, _mm256_set1_ps(block_of(x, stride, r, b)->scale));
            acc[r][v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r][v]), scale, acc[r][v]);
          }
        }
      }
      QUERN_UNROLL for (int v = 0; v < 2; ++v) {
        const __m256 minimum = load_float(w + 128 + 32 * v);
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          acc[r][v] = _mm256_fmadd_ps(
              minimum, _mm256_set1_ps(block_of(x, stride, r, b)->scaled_sum), acc[r][v]);
        }
      }
    }
    store(acc, out);
  }
};

struct F32Weights {
  static constexpr int kBytes = 64;  // of one k
  QUERN_INLINE __m256 at(const std::byte* w, int v) { return load_float(w + 32 * v); }
};

struct F16Weights {
  static constexpr int kBytes = 32;
  QUERN_INLINE __m256 at(const std::byte* w, int v) { return load_half(w + 16 * v); }
};

template <typename Weights>
struct FloatKernel {
  static constexpr int kRows = 6, kPanels = 1;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t, const std::byte* x, std::int64_t stride,
                         std::int64_t k, float* out) {
    __m256 acc[R][2];
    zero(acc);
    for (std::int64_t i = 0; i < k; ++i, w += Weights::kBytes) {
      if (kFirst) fetch_lines(w + kAhead, 1);
      const __m256 w0 = Weights::at(w, 0), w1 = Weights::at(w, 1);
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        const __m256 value =
            _mm256_broadcast_ss(reinterpret_cast<const float*>(x + r * stride) + i);
        acc[r][0] = _mm256_fmadd_ps(value, w0, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(value, w1, acc[r][1]);
      }
    }
    store(acc, out);
  }
};

// A 32-bit lane holds the bf16 pair k, k+1: shifting up widens the first, masking the second.
struct Bf16Kernel {
  static constexpr int kRows = 6, kPanels = 1;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t, const std::byte* x, std::int64_t stride,
                         std::int64_t k, float* out) {
    const __m256i high = _mm256_set1_epi32(static_cast<int>(0xFFFF0000u));
    __m256 acc[R][2];
    zero(acc);
    for (std::int64_t i = 0; i < k; i += 2, w += 64) {
      if (kFirst) fetch_lines(w + kAhead, 1);
      const __m256i p0 = load(w), p1 = load(w + 32);
      const __m256 even0 = _mm256_castsi256_ps(_mm256_slli_epi32(p0, 16));
      const __m256 even1 = _mm256_castsi256_ps(_mm256_slli_epi32(p1, 16));
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        const __m256 value =
            _mm256_broadcast_ss(reinterpret_cast<const float*>(x + r * stride) + i);
        acc[r][0] = _mm256_fmadd_ps(value, even0, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(value, even1, acc[r][1]);
      }
      const __m256 odd0 = _mm256_castsi256_ps(_mm256_and_si256(p0, high));
      const __m256 odd1 = _mm256_castsi256_ps(_mm256_and_si256(p1, high));
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        const __m256 value =
            _mm256_broadcast_ss(reinterpret_cast<const float*>(x + r * stride) + i + 1);
        acc[r][0] = _mm256_fmadd_ps(value, odd0, acc[r][0]);
        acc[r][1] = _mm256_fmadd_ps(value, odd1, acc[r][1]);
      }
    }
    store(acc, out);
  }
};

}  // namespace

void multiply_f32_avx2(const MatmulArgs& args) { run_tiles<FloatKernel<F32Weights>>(args); }
void multiply_f16_avx2(const MatmulArgs& args) { run_tiles<FloatKernel<F16Weights>>(args); }
void multiply_bf16_avx2(const MatmulArgs& args) { run_tiles<Bf16Kernel>(args); }
void multiply_q8_avx2(const MatmulArgs& args) { run_tiles<Q8Kernel>(args); }
void multiply_q8sub_avx2(const MatmulArgs& args) { run_tiles<Q8SubKernel>(args); }

void prepare_bf16_avx2(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                       std::int64_t out_stride) {
  const __m256i bias = _mm256_set1_epi32(0x7FFF), one = _mm256_set1_epi32(1);
  const __m256i high = _mm256_set1_epi32(static_cast<int>(0xFFFF0000u));
  for (std::int64_t row = 0; row < rows; ++row, x += k) {
    auto* to = reinterpret_cast<float*>(out + row * out_stride);
    std::int64_t i = 0;
    for (; i + 8 <= k; i += 8) {
      const __m256 value = _mm256_loadu_ps(x + i);
      const __m256i bits = _mm256_castps_si256(value);
      const __m256i even = _mm256_and_si256(_mm256_srli_epi32(bits, 16), one);
      const __m256i rounded =
          _mm256_and_si256(_mm256_add_epi32(bits, _mm256_add_epi32(bias, even)), high);
      // Adding could carry a NaN into something else; it is kept as it came.
      const __m256 nan = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
      _mm256_storeu_ps(to + i, _mm256_blendv_ps(_mm256_castsi256_ps(rounded), value, nan));
    }
    for (; i < k; ++i) {
      unsigned bits;
      __builtin_memcpy(&bits, x + i, 4);
      if (x[i] == x[i]) bits = (bits + 0x7FFFu + (bits >> 16 & 1u)) & 0xFFFF0000u;
      __builtin_memcpy(to + i, &bits, 4);
    }
    if (k % 2 != 0) to[k] = 0.0f;
  }
}

void prepare_int8_avx2(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                       std::int64_t out_stride) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i ones16 = _mm256_set1_epi16(1), ones8 = _mm256_set1_epi8(1);
  for (std::int64_t row = 0; row < rows; ++row) {
    auto* block = reinterpret_cast<Int8Block*>(out + row * out_stride);
    for (std::int64_t b = 0; b < k / kBlock; ++b, x += kBlock, ++block) {
      __m256 v[4], most = _mm256_setzero_ps(), strange = _mm256_setzero_ps();
      QUERN_UNROLL for (int i = 0; i < 4; ++i) {
        v[i] = _mm256_loadu_ps(x + 8 * i);
        most = _mm256_max_ps(most, _mm256_andnot_ps(sign, v[i]));
        const __m256 zero_or_nan = _mm256_sub_ps(v[i], v[i]);
        strange = _mm256_or_ps(strange, _mm256_cmp_ps(zero_or_nan, zero_or_nan, _CMP_UNORD_Q));
      }
      const bool finite = _mm256_movemask_ps(strange) == 0;
      const float top = avx2_horizontal_max(most);
      const float inverse = finite && top > 0.0f ? 127.0f / top : 0.0f;
      __m256i q[4];
      QUERN_UNROLL for (int i = 0; i < 4; ++i) {
        const __m256 scaled = _mm256_mul_ps(v[i], _mm256_set1_ps(inverse));
        const __m256 clamped =
            _mm256_min_ps(_mm256_max_ps(scaled, _mm256_set1_ps(-127.0f)), _mm256_set1_ps(127.0f));
        q[i] = finite ? _mm256_cvtps_epi32(clamped) : _mm256_setzero_si256();
      }
      const __m256i bytes = _mm256_permutevar8x32_epi32(
          _mm256_packs_epi16(_mm256_packs_epi32(q[0], q[1]), _mm256_packs_epi32(q[2], q[3])),
          order);
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(block->q), bytes);
      const __m256i sums = _mm256_madd_epi16(_mm256_maddubs_epi16(ones8, bytes), ones16);
      __m256i halves = _mm256_add_epi32(sums, _mm256_shuffle_epi32(sums, 0x4E));
      halves = _mm256_add_epi32(halves, _mm256_shuffle_epi32(halves, 0xB1));
      block->sum_16 = _mm256_extract_epi32(halves, 0);
      block->sum = block->sum_16 + _mm256_extract_epi32(halves, 4);
      block->scale = finite ? top / 127.0f : __builtin_nanf("");
      block->scaled_sum = block->scale * static_cast<float>(block->sum);
    }
  }
}

}  // namespace quern::kernels
