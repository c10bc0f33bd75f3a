// Matmul of 4, 5 and 6 bits a weight on AVX2 + FMA + F16C: vpmaddubsw of unsigned weights with
// signed activations, summed in 16 bits as long as they hold the products. 4-bit products of a
// whole block do (16 × 15 × 127 < 32768).

#include "kernels/cpu/avx2_ops.h"
#include "kernels/cpu/matmul_avx2.h"
#include "kernels/packed_matrix.h"

namespace quern::kernels {
namespace {

struct Q4Kernel {
  static constexpr int kRows = 4, kPanels = 1;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t, const std::byte* x, std::int64_t stride,
                         std::int64_t k, float* out) {
    const __m256i ones = _mm256_set1_epi16(1), mask = _mm256_set1_epi8(15);
    __m256 acc[R][2];
    zero(acc);
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += 320) {
      if (kFirst) fetch_lines(w + kAhead, 5);
      __m256i sum[R][2];
      QUERN_UNROLL for (int r = 0; r < R; ++r) sum[r][0] = sum[r][1] = _mm256_setzero_si256();
      QUERN_UNROLL for (int j = 0; j < 4; ++j) {
        QUERN_UNROLL for (int v = 0; v < 2; ++v) {
          const __m256i packed = load(w + 64 + 64 * j + 32 * v);
          const __m256i low = _mm256_and_si256(packed, mask);
          const __m256i high = _mm256_and_si256(_mm256_srli_epi16(packed, 4), mask);
          QUERN_UNROLL for (int r = 0; r < R; ++r) {
            const Int8Block* xr = block_of(x, stride, r, b);
            sum[r][v] = _mm256_add_epi16(sum[r][v], _mm256_maddubs_epi16(low, quad(xr, 2 * j)));
            keep(sum[r][v]);
            sum[r][v] =
                _mm256_add_epi16(sum[r][v], _mm256_maddubs_epi16(high, quad(xr, 2 * j + 1)));
            keep(sum[r][v]);
          }
        }
      }
      QUERN_UNROLL for (int v = 0; v < 2; ++v) {
        const __m256 d = load_half(w + 16 * v), minimum = load_half(w + 32 + 16 * v);
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          const Int8Block* xr = block_of(x, stride, r, b);
          const __m256 value = _mm256_cvtepi32_ps(_mm256_madd_epi16(sum[r][v], ones));
          const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(xr->scale));
          acc[r][v] = _mm256_fmadd_ps(value, scale, acc[r][v]);
          acc[r][v] = _mm256_fmadd_ps(minimum, _mm256_set1_ps(xr->scaled_sum), acc[r][v]);
        }
      }
    }
    store(acc, out);
  }
};

// The weights of quads 2j and 2j+1 of a block and 8 outputs, unsigned, 5 or 6 bits wide. `upper`
// holds what is above the nibbles, a quad's in the same place of every byte.
template <int kBits>
QUERN_INLINE void unpack(const std::byte* nibbles, int j, __m256i upper, __m256i& first,
                         __m256i& second) {
  constexpr int kWidth = kBits - 4;
  const __m256i mask = _mm256_set1_epi8(15), bits = _mm256_set1_epi8(kBits == 5 ? 0x10 : 0x30);
  const int quad = kBits == 5 ? 2 * j : 2 * (j % 2);
  const auto moved = [&](int place) {
    const __m256i at_four =
        place <= 4 ? _mm256_slli_epi32(upper, 4 - place) : _mm256_srli_epi32(upper, place - 4);
    return _mm256_and_si256(at_four, bits);
  };
  const __m256i packed = load(nibbles + 64 * j);
  first = _mm256_or_si256(_mm256_and_si256(packed, mask), moved(kWidth * quad));
  second = _mm256_or_si256(_mm256_and_si256(_mm256_srli_epi16(packed, 4), mask),
                           moved(kWidth * (quad + 1)));
}

// quad(), loaded where it stands: GCC 12 would keep the quads of both halves of the outputs, which
// are the same, and spill most of them.
QUERN_INLINE __m256i quad_here(const Int8Block* x, int index) {
  __m256i value;
  asm volatile("vpbroadcastd %1, %0"
               : "=x"(value)
               : "m"(*reinterpret_cast<const int*>(x->q + 4 * index)));
  return value;
}

// Four products of a 5-bit weight fill 16 bits (4 × 2 × 31 × 127 < 32768), two of a 6-bit weight.
template <int R, int kBits>
QUERN_INLINE void add_half(const std::byte* nibbles, int half, __m256i upper, const std::byte* x,
                           std::int64_t stride, std::int64_t b, __m256i (&sum)[R]) {
  const __m256i ones = _mm256_set1_epi16(1);
  __m256i products[R];
  QUERN_UNROLL for (int j = 2 * half; j < 2 * half + 2; ++j) {
    __m256i low, high;
    unpack<kBits>(nibbles, j, upper, low, high);
    QUERN_UNROLL for (int r = 0; r < R; ++r) {
      const Int8Block* xr = block_of(x, stride, r, b);
      const __m256i first = _mm256_maddubs_epi16(low, quad_here(xr, 2 * j));
      const bool fresh = kBits == 6 || j == 2 * half;
      products[r] = fresh ? first : _mm256_add_epi16(products[r], first);
      keep(products[r]);
      products[r] =
          _mm256_add_epi16(products[r], _mm256_maddubs_epi16(high, quad_here(xr, 2 * j + 1)));
      keep(products[r]);
      if (kBits == 6 || j == 2 * half + 1) {
        sum[r] = _mm256_add_epi32(sum[r], _mm256_madd_epi16(products[r], ones));
        keep(sum[r]);
      }
    }
  }
}

struct Q5Kernel {
  static constexpr int kRows = 4, kPanels = 1;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t, const std::byte* x, std::int64_t stride,
                         std::int64_t k, float* out) {
    __m256 acc[R][2];
    zero(acc);
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += plane_bytes(5)) {
      if (kFirst) fetch_lines(w + kAhead, 6);
      QUERN_UNROLL for (int v = 0; v < 2; ++v) {
        const std::byte* nibbles = w + 64 + 32 * v;
        const __m256i upper = load(nibbles + 256);
        __m256i sum[R];
        QUERN_UNROLL for (int r = 0; r < R; ++r) sum[r] = _mm256_setzero_si256();
        QUERN_UNROLL for (int half = 0; half < 2; ++half) {
          add_half<R, 5>(nibbles, half, upper, x, stride, b, sum);
        }
        const __m256 d = load_half(w + 16 * v), minimum = load_half(w + 32 + 16 * v);
        QUERN_UNROLL for (int r = 0; r < R; ++r) {
          const Int8Block* xr = block_of(x, stride, r, b);
          const __m256 scale = _mm256_mul_ps(d, _mm256_set1_ps(xr->scale));
          acc[r][v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r]), scale, acc[r][v]);
          acc[r][v] = _mm256_fmadd_ps(minimum, _mm256_set1_ps(xr->scaled_sum), acc[r][v]);
        }
      }
    }
    store(acc, out);
  }
};

// Two scales in a block, weights less 32: the sums start at −32·Σx.
struct Q6Kernel {
  static constexpr int kRows = 4, kPanels = 1;
  template <int R, int P, bool kFirst>
  QUERN_INLINE void tile(const std::byte* w, std::int64_t, const std::byte* x, std::int64_t stride,
                         std::int64_t k, float* out) {
    __m256 acc[R][2];
    zero(acc);
    for (std::int64_t b = 0; b < k / kBlock; ++b, w += plane_bytes(6)) {
      if (kFirst) fetch_lines(w + kAhead, 7);
      QUERN_UNROLL for (int v = 0; v < 2; ++v) {
        const std::byte* nibbles = w + 64 + 32 * v;
        QUERN_UNROLL for (int half = 0; half < 2; ++half) {
          __m256i sum[R];
          QUERN_UNROLL for (int r = 0; r < R; ++r) {
            const Int8Block* xr = block_of(x, stride, r, b);
            sum[r] = _mm256_set1_epi32(-32 * (half == 0 ? xr->sum_16 : xr->sum - xr->sum_16));
          }
          add_half<R, 6>(nibbles, half, load(nibbles + 256 + 64 * half), x, stride, b, sum);
          const __m256 s = load_half(w + 32 * half + 16 * v);
          QUERN_UNROLL for (int r = 0; r < R; ++r) {
            const __m256 scale = _mm256_mul_ps(s, _mm256_set1_ps(block_of(x, stride, r, b)->scale));
            acc[r][v] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum[r]), scale, acc[r][v]);
          }
        }
      }
    }
    store(acc, out);
  }
};

}  // namespace

void multiply_q4_avx2(const MatmulArgs& args) { run_tiles<Q4Kernel>(args); }
void multiply_q5_avx2(const MatmulArgs& args) { run_tiles<Q5Kernel>(args); }
void multiply_q6_avx2(const MatmulArgs& args) { run_tiles<Q6Kernel>(args); }

}  // namespace quern::kernels
