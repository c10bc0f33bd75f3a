// Matmul on AVX-512 with VNNI and BF16 (Zen 4, Cooper Lake, Sapphire Rapids): tiles of up to 4 rows
// × 16 outputs, one register a row. vpdpbusd multiplies unsigned weights with signed activations
// into 32-bit sums; int8 weights are made unsigned by adding 128 and the sums start at −128·Σx.
// Integer sums are exact and the float order is that of the AVX2 kernels: the same bits. vdpbf16ps
// rounds differently from an f32 fma, so bf16 weights agree within tolerance only.

#include "kernels/cpu/avx512_intrinsics.h"
#include "kernels/cpu/avx512_ops.h"
#include "kernels/cpu/row_tiles.h"

namespace quern::kernels {
namespace {

constexpr std::int64_t kAhead = 2048;

QUERN_INLINE void prefetch(const std::byte* at, int lines) {
  for (int i = 0; i < lines; ++i) {
    __builtin_prefetch(reinterpret_cast<const char*>(at) + kAhead + 64 * i, 0, 3);
  }
}

QUERN_INLINE __m512i load(const std::byte* p) { return _mm512_loadu_si512(p); }

QUERN_INLINE __m512 load_half(const std::byte* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

QUERN_INLINE __m512i quad(const Int8Block* x, int index) {
  int value;
  __builtin_memcpy(&value, x->q + 4 * index, 4);
  return _mm512_set1_epi32(value);
}

template <int R>
QUERN_INLINE void store(const __m512 (&acc)[R], float* out) {
  QUERN_UNROLL for (int r = 0; r < R; ++r) _mm512_storeu_ps(out + r * kPanel, acc[r]);
}

struct Q4Kernel {
  template <int R, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, const std::byte* x, std::int64_t stride,
                         std::int64_t k, float* out) {
    const __m512i mask = _mm512_set1_epi8(15);
    __m512 acc[R];
    QUERN_UNROLL for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += 320) {
      if (kFirst) prefetch(w, 5);
      __m512i sum[R];
      QUERN_UNROLL for (int r = 0; r < R; ++r) sum[r] = _mm512_setzero_si512();
      QUERN_UNROLL for (int j = 0; j < 4; ++j) {
        const __m512i packed = load(w + 64 + 64 * j);
        const __m512i low = _mm512_and_si512(packed, mask);
        const __m512i high = _mm512_and_si512(_mm512_srli_epi16(packed, 4), mask);
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          const Int8Block* xr = block_of(x, stride, r, b);
          sum[r] = _mm512_dpbusd_epi32(sum[r], low, quad(xr, 2 * j));
          sum[r] = _mm512_dpbusd_epi32(sum[r], high, quad(xr, 2 * j + 1));
        }
      }
      const __m512 d = load_half(w), minimum = load_half(w + 32);
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        const Int8Block* xr = block_of(x, stride, r, b);
        const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(xr->scale));
        acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r]), scale, acc[r]);
        acc[r] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(xr->scaled_sum), acc[r]);
      }
    }
    store(acc, out);
  }
};

// Sums of `kQuads` quads of int8 weights, exact.
template <int R, int kQuads>
QUERN_INLINE void sum_quads(const std::byte* quads, const std::byte* x, std::int64_t stride,
                            std::int64_t b, int first_quad, __m512i (&sum)[R]) {
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
  QUERN_UNROLL for (int q = first_quad; q < first_quad + kQuads; ++q) {
    const __m512i weights = _mm512_xor_si512(load(quads + 64 * q), flip);  // w + 128, unsigned
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      sum[r] = _mm512_dpbusd_epi32(sum[r], weights, quad(block_of(x, stride, r, b), q));
    }
  }
}

struct Q8Kernel {
  template <int R, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, const std::byte* x, std::int64_t stride,
                         std::int64_t k, float* out) {
    __m512 acc[R];
    QUERN_UNROLL for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += 544) {
      if (kFirst) prefetch(w, 9);
      __m512i sum[R];
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        sum[r] = _mm512_set1_epi32(-128 * block_of(x, stride, r, b)->sum);
      }
      sum_quads<R, 8>(w + 32, x, stride, b, 0, sum);
      const __m512 d = load_half(w);
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(block_of(x, stride, r, b)->scale));
        acc[r] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r]), scale, acc[r]);
      }
    }
    store(acc, out);
  }
};

// A lane is the bf16 pair k, k+1 of one output; the row's pair is broadcast as one 32-bit word.
struct Bf16Kernel {
  template <int R, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, const std::byte* x, std::int64_t stride,
                         std::int64_t k, float* out) {
    __m512 acc[R];
    QUERN_UNROLL for (int r = 0; r < R; ++r) acc[r] = _mm512_setzero_ps();
    for (std::int64_t pair = 0; pair < (k + 1) / 2; ++pair, w += 64) {
      if (kFirst) prefetch(w, 1);
      const __m512i weights = load(w);
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        int value;
        __builtin_memcpy(&value, x + r * stride + 4 * pair, 4);
        const __m512i pairs = _mm512_set1_epi32(value);
        acc[r] = _mm512_dpbf16_ps(acc[r], (__m512bh)weights, (__m512bh)pairs);
      }
    }
    store(acc, out);
  }
};

}  // namespace

void multiply_q4_avx512(const MatmulArgs& args) { run_tiles<Q4Kernel>(args); }
void multiply_q8_avx512(const MatmulArgs& args) { run_tiles<Q8Kernel>(args); }
void multiply_bf16_avx512(const MatmulArgs& args) { run_tiles<Bf16Kernel>(args); }

void prepare_bf16_avx512(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                         std::int64_t out_stride) {
  for (std::int64_t row = 0; row < rows; ++row, x += k) {
    auto* to = reinterpret_cast<unsigned short*>(out + row * out_stride);
    for (std::int64_t i = 0; i < k; ++i) {
      unsigned bits;
      __builtin_memcpy(&bits, x + i, 4);
      const bool nan = (bits & 0x7FFFFFFFu) > 0x7F800000u;
      const unsigned rounded = (bits + 0x7FFFu + (bits >> 16 & 1u)) >> 16;
      to[i] = static_cast<unsigned short>(nan ? bits >> 16 | 0x40u : rounded);
    }
    if (k % 2 != 0) to[k] = 0;
  }
}

}  // namespace quern::kernels
