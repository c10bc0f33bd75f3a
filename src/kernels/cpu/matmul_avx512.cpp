// Matmul on AVX-512 with VNNI and BF16 (Zen 4, Cooper Lake, Sapphire Rapids): tiles of up to 4 rows
// × 32 outputs: a broadcast activation serves two registers of weights, since at one each the load
// ports would bind. vpdpbusd multiplies unsigned weights with signed activations
// into 32-bit sums; int8 weights are made unsigned by adding 128 and the sums start at −128·Σx.
// Integer sums are exact and the float order is that of the AVX2 kernels: the same bits. vdpbf16ps
// rounds differently from an f32 fma, so bf16 weights agree within tolerance only.

#include "kernels/cpu/avx512_intrinsics.h"
#include "kernels/cpu/avx512_ops.h"
#include "kernels/cpu/row_tiles.h"
#include "kernels/packed_matrix.h"

namespace quern::kernels {
namespace {

QUERN_INLINE __m512i load(const std::byte* p) { return _mm512_loadu_si512(p); }

QUERN_INLINE __m512 load_half(const std::byte* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}

QUERN_INLINE __m512i quad(const Int8Block* x, int index) {
  int value;
  __builtin_memcpy(&value, x->q + 4 * index, 4);
  return _mm512_set1_epi32(value);
}

QUERN_INLINE __m512 load_float(const std::byte* p) {
  return _mm512_loadu_ps(reinterpret_cast<const float*>(p));
}

template <int R, int P>
using Accumulators = __m512[R][P];

template <int R, int P>
QUERN_INLINE void zero(Accumulators<R, P>& acc) {
  QUERN_UNROLL for (int r = 0; r < R; ++r) {
    QUERN_UNROLL for (int p = 0; p < P; ++p) acc[r][p] = _mm512_setzero_ps();
  }
}

template <int R, int P>
QUERN_INLINE void store(const Accumulators<R, P>& acc, float* out) {
  QUERN_UNROLL for (int r = 0; r < R; ++r) {
    QUERN_UNROLL for (int p = 0; p < P; ++p) {
      _mm512_storeu_ps(out + (r * P + p) * kPanel, acc[r][p]);
    }
  }
}

// The weights of quads 2j and 2j+1 of a block, unsigned. Upper bits stand in `upper`, those of a
// quad in the same place of every byte: a shift brings them to bit 4.
template <int kBits>
QUERN_INLINE void unpack(const std::byte* nibbles, int j, const __m512i (&upper)[2], __m512i& first,
                         __m512i& second) {
  const __m512i mask = _mm512_set1_epi8(15);
  const __m512i packed = load(nibbles + 64 * j);
  first = _mm512_and_si512(packed, mask);
  second = _mm512_and_si512(_mm512_srli_epi16(packed, 4), mask);
  if (kBits == 4) return;
  constexpr int kWidth = kBits - 4;
  const __m512i bits = _mm512_set1_epi8(kBits == 5 ? 0x10 : 0x30);
  const __m512i from = upper[kBits == 5 ? 0 : j / 2];
  const int quad = kBits == 5 ? 2 * j : 2 * (j % 2);
  const auto moved = [&](int place) {
    const __m512i at_four = place <= 4 ? _mm512_slli_epi32(from, static_cast<unsigned>(4 - place))
                                       : _mm512_srli_epi32(from, static_cast<unsigned>(place - 4));
    return _mm512_and_si512(at_four, bits);
  };
  first = _mm512_or_si512(first, moved(kWidth * quad));
  second = _mm512_or_si512(second, moved(kWidth * (quad + 1)));
}

// kQ4 and kQ5: unsigned weights with a scale and a minimum.
template <int kBits>
struct MinKernel {
  static constexpr int kRows = 4, kPanels = 2;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t panel_bytes, const std::byte* x,
                         std::int64_t stride, std::int64_t k, float* out) {
    Accumulators<R, P> acc;
    zero(acc);
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += plane_bytes(kBits)) {
      __m512i sum[R][P], upper[P][2];
      QUERN_UNROLL for (int p = 0; p < P; ++p) {
        const std::byte* block = w + p * panel_bytes;
        if (kFirst) fetch_lines(block + kAhead, static_cast<int>(plane_bytes(kBits) / 64));
        if (kBits == 5) upper[p][0] = load(block + 64 + 256);
        QUERN_UNROLL for (int r = 0; r < R; ++r) sum[r][p] = _mm512_setzero_si512();
      }
      QUERN_UNROLL for (int j = 0; j < 4; ++j) {
        __m512i low[P], high[P];
        QUERN_UNROLL for (int p = 0; p < P; ++p) {
          unpack<kBits>(w + p * panel_bytes + 64, j, upper[p], low[p], high[p]);
        }
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          const Int8Block* xr = block_of(x, stride, r, b);
          const __m512i first = quad(xr, 2 * j), second = quad(xr, 2 * j + 1);
          QUERN_UNROLL for (int p = 0; p < P; ++p) {
            sum[r][p] = _mm512_dpbusd_epi32(sum[r][p], low[p], first);
            sum[r][p] = _mm512_dpbusd_epi32(sum[r][p], high[p], second);
          }
        }
      }
      QUERN_UNROLL for (int p = 0; p < P; ++p) {
        const __m512 d = load_half(w + p * panel_bytes);
        const __m512 minimum = load_half(w + p * panel_bytes + 32);
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          const Int8Block* xr = block_of(x, stride, r, b);
          const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(xr->scale));
          acc[r][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][p]), scale, acc[r][p]);
          acc[r][p] = _mm512_fmadd_ps(minimum, _mm512_set1_ps(xr->scaled_sum), acc[r][p]);
        }
      }
    }
    store<R, P>(acc, out);
  }
};

// Σx of a block's first or second 16 values.
QUERN_INLINE int half_sum(const Int8Block* x, int half) {
  return half == 0 ? x->sum_16 : x->sum - x->sum_16;
}

// kQ6: two scales in a block, weights less 32: the sums start at −32·Σx.
struct Q6Kernel {
  static constexpr int kRows = 4, kPanels = 2;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t panel_bytes, const std::byte* x,
                         std::int64_t stride, std::int64_t k, float* out) {
    Accumulators<R, P> acc;
    zero(acc);
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += plane_bytes(6)) {
      __m512i upper[P][2];
      QUERN_UNROLL for (int p = 0; p < P; ++p) {
        const std::byte* block = w + p * panel_bytes;
        if (kFirst) fetch_lines(block + kAhead, static_cast<int>(plane_bytes(6) / 64));
        upper[p][0] = load(block + 64 + 256);
        upper[p][1] = load(block + 64 + 320);
      }
      QUERN_UNROLL for (int half = 0; half < 2; ++half) {
        __m512i sum[R][P];
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          sum[r][0] = _mm512_set1_epi32(-32 * half_sum(block_of(x, stride, r, b), half));
          QUERN_UNROLL for (int p = 1; p < P; ++p) sum[r][p] = sum[r][0];
        }
        QUERN_UNROLL for (int j = 2 * half; j < 2 * half + 2; ++j) {
          __m512i low[P], high[P];
          QUERN_UNROLL for (int p = 0; p < P; ++p) {
            unpack<6>(w + p * panel_bytes + 64, j, upper[p], low[p], high[p]);
          }
          QUERN_UNROLL for (int r = 0; r < R; ++r) {
            const Int8Block* xr = block_of(x, stride, r, b);
            const __m512i first = quad(xr, 2 * j), second = quad(xr, 2 * j + 1);
            QUERN_UNROLL for (int p = 0; p < P; ++p) {
              sum[r][p] = _mm512_dpbusd_epi32(sum[r][p], low[p], first);
              sum[r][p] = _mm512_dpbusd_epi32(sum[r][p], high[p], second);
            }
          }
        }
        QUERN_UNROLL for (int p = 0; p < P; ++p) {
          const __m512 s = load_half(w + p * panel_bytes + 32 * half);
          QUERN_UNROLL for (int r = 0; r < R; ++r) {
            const __m512 scale = _mm512_mul_ps(s, _mm512_set1_ps(block_of(x, stride, r, b)->scale));
            acc[r][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][p]), scale, acc[r][p]);
          }
        }
      }
    }
    store<R, P>(acc, out);
  }
};

// Adds the products of `kQuads` quads of int8 weights to the sums, exactly.
template <int R, int P, int kQuads>
QUERN_INLINE void add_quads(const std::byte* quads, std::int64_t panel_bytes, const std::byte* x,
                            std::int64_t stride, std::int64_t b, int first_quad,
                            __m512i (&sum)[R][P]) {
  const __m512i flip = _mm512_set1_epi8(static_cast<char>(0x80));
  QUERN_UNROLL for (int q = first_quad; q < first_quad + kQuads; ++q) {
    __m512i weights[P];  // w + 128, unsigned
    QUERN_UNROLL for (int p = 0; p < P; ++p) {
      weights[p] = _mm512_xor_si512(load(quads + p * panel_bytes + 64 * q), flip);
    }
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      const __m512i activations = quad(block_of(x, stride, r, b), q);
      QUERN_UNROLL for (int p = 0; p < P; ++p) {
        sum[r][p] = _mm512_dpbusd_epi32(sum[r][p], weights[p], activations);
      }
    }
  }
}

struct Q8Kernel {
  static constexpr int kRows = 4, kPanels = 2;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t panel_bytes, const std::byte* x,
                         std::int64_t stride, std::int64_t k, float* out) {
    Accumulators<R, P> acc;
    zero(acc);
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += 544) {
      __m512i sum[R][P];
      QUERN_UNROLL for (int p = 0; p < P; ++p) {
        if (kFirst) fetch_lines(w + p * panel_bytes + kAhead, 9);
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          sum[r][p] = _mm512_set1_epi32(-128 * block_of(x, stride, r, b)->sum);
        }
      }
      add_quads<R, P, 8>(w + 32, panel_bytes, x, stride, b, 0, sum);
      QUERN_UNROLL for (int p = 0; p < P; ++p) {
        const __m512 d = load_half(w + p * panel_bytes);
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          const __m512 scale = _mm512_mul_ps(d, _mm512_set1_ps(block_of(x, stride, r, b)->scale));
          acc[r][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][p]), scale, acc[r][p]);
        }
      }
    }
    store<R, P>(acc, out);
  }
};

struct Q8SubKernel {
  static constexpr int kRows = 4, kPanels = 2;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t panel_bytes, const std::byte* x,
                         std::int64_t stride, std::int64_t k, float* out) {
    Accumulators<R, P> acc;
    zero(acc);
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += 704) {
      if (kFirst) {
        QUERN_UNROLL for (int p = 0; p < P; ++p) fetch_lines(w + p * panel_bytes + kAhead, 11);
      }
      QUERN_UNROLL for (int half = 0; half < 2; ++half) {
        __m512i sum[R][P];
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          sum[r][0] = _mm512_set1_epi32(-128 * half_sum(block_of(x, stride, r, b), half));
          QUERN_UNROLL for (int p = 1; p < P; ++p) sum[r][p] = sum[r][0];
        }
        add_quads<R, P, 4>(w + 192, panel_bytes, x, stride, b, 4 * half, sum);
        QUERN_UNROLL for (int p = 0; p < P; ++p) {
          const __m512 s = load_float(w + p * panel_bytes + 64 * half);
          QUERN_UNROLL for (int r = 0; r < R; ++r) {
            const __m512 scale = _mm512_mul_ps(s, _mm512_set1_ps(block_of(x, stride, r, b)->scale));
            acc[r][p] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum[r][p]), scale, acc[r][p]);
          }
        }
      }
      QUERN_UNROLL for (int p = 0; p < P; ++p) {
        const __m512 minimum = load_float(w + p * panel_bytes + 128);
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          acc[r][p] = _mm512_fmadd_ps(
              minimum, _mm512_set1_ps(block_of(x, stride, r, b)->scaled_sum), acc[r][p]);
        }
      }
    }
    store<R, P>(acc, out);
  }
};

// A lane is the bf16 pair k, k+1 of one output; the row's pair is broadcast as one 32-bit word.
struct Bf16Kernel {
  static constexpr int kRows = 4, kPanels = 2;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t panel_bytes, const std::byte* x,
                         std::int64_t stride, std::int64_t k, float* out) {
    Accumulators<R, P> acc;
    zero(acc);
    for (std::int64_t pair = 0; pair < (k + 1) / 2; ++pair, w += 64) {
      __m512i weights[P];
      QUERN_UNROLL for (int p = 0; p < P; ++p) {
        if (kFirst) fetch_lines(w + p * panel_bytes + kAhead, 1);
        weights[p] = load(w + p * panel_bytes);
      }
      QUERN_UNROLL for (int r = 0; r < R; ++r) {
        int value;
        __builtin_memcpy(&value, x + r * stride + 4 * pair, 4);
        const __m512i pairs = _mm512_set1_epi32(value);
        QUERN_UNROLL for (int p = 0; p < P; ++p) {
          acc[r][p] = _mm512_dpbf16_ps(acc[r][p], (__m512bh)weights[p], (__m512bh)pairs);
        }
      }
    }
    store<R, P>(acc, out);
  }
};

}  // namespace

void multiply_q4_avx512(const MatmulArgs& args) { run_tiles<MinKernel<4>>(args); }
void multiply_q5_avx512(const MatmulArgs& args) { run_tiles<MinKernel<5>>(args); }
void multiply_q6_avx512(const MatmulArgs& args) { run_tiles<Q6Kernel>(args); }
void multiply_q8_avx512(const MatmulArgs& args) { run_tiles<Q8Kernel>(args); }
void multiply_q8sub_avx512(const MatmulArgs& args) { run_tiles<Q8SubKernel>(args); }
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
