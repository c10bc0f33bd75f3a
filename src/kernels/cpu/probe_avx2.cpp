// The chains that bound the AVX2 kernels, as endless independent work on registers: an f32 fma;
// int8 products widened at once (vpmaddubsw, vpmaddwd, vpaddd); 4-bit weights, of whose products
// eight fit a 16-bit sum, so that only each fourth vpmaddubsw is widened. Unpacking and scales are
// not counted: they shrink with the number of rows. All in assembly, for a compiler would fold it.

#include <immintrin.h>

#include "kernels/cpu/probe_loops.h"

namespace quern::kernels {
namespace {

#define QUERN_UNROLL _Pragma("GCC unroll 16")

void fma_f32(std::int64_t rounds) {
  const __m256 x = _mm256_set1_ps(1e-3f);
  __m256 acc[12];
  QUERN_UNROLL for (__m256& a : acc) a = x;
  for (std::int64_t i = 0; i < rounds; ++i) {
    QUERN_UNROLL for (__m256& a : acc) asm volatile("vfmadd231ps %1, %1, %0" : "+x"(a) : "x"(x));
  }
}

void chain_int8(std::int64_t rounds) {
  const __m256i weights = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
  const __m256i x = _mm256_set1_epi8(-2);
  __m256i sum[8];
  QUERN_UNROLL for (__m256i& s : sum) s = _mm256_setzero_si256();
  for (std::int64_t i = 0; i < rounds; ++i) {
    QUERN_UNROLL for (__m256i& s : sum) {
      __m256i t;
      asm volatile(
          "vpmaddubsw %3, %2, %1\n\t"
          "vpmaddwd %4, %1, %1\n\t"
          "vpaddd %1, %0, %0"
          : "+x"(s), "=&x"(t)
          : "x"(weights), "x"(x), "x"(ones));
    }
  }
}

void chain_int4(std::int64_t rounds) {
  const __m256i weights = _mm256_set1_epi8(3), ones = _mm256_set1_epi16(1);
  const __m256i x = _mm256_set1_epi8(-2);
  __m256i sum[4], part[4];
  QUERN_UNROLL for (int r = 0; r < 4; ++r) sum[r] = part[r] = _mm256_setzero_si256();
  for (std::int64_t i = 0; i < rounds; ++i) {
    QUERN_UNROLL for (int deep = 0; deep < 4; ++deep) {
      QUERN_UNROLL for (__m256i& s : part) {
        __m256i t;
        asm volatile(
            "vpmaddubsw %3, %2, %1\n\t"
            "vpaddw %1, %0, %0"
            : "+x"(s), "=&x"(t)
            : "x"(weights), "x"(x));
      }
    }
    QUERN_UNROLL for (int r = 0; r < 4; ++r) {
      asm volatile(
          "vpmaddwd %2, %1, %1\n\t"
          "vpaddd %1, %0, %0"
          : "+x"(sum[r]), "+x"(part[r])
          : "x"(ones));
    }
  }
}

}  // namespace

const ProbeLoop kAvx2ProbeLoops[3] = {
    {ProbeLoop::Rate::kF32, "vfmadd231ps ymm", 12 * 16, fma_f32},
    {ProbeLoop::Rate::kInt8, "vpmaddubsw + vpmaddwd + vpaddd ymm", 8 * 64, chain_int8},
    {ProbeLoop::Rate::kInt4, "4 (vpmaddubsw + vpaddw) + vpmaddwd + vpaddd ymm", 16 * 64,
     chain_int4},
};

std::uint64_t read_avx2(const std::byte* data, std::int64_t bytes) {
  __m256i sum[8];
  QUERN_UNROLL for (__m256i& s : sum) s = _mm256_setzero_si256();
  for (std::int64_t at = 0; at < bytes; at += 256) {
    QUERN_UNROLL for (int line = 0; line < 4; ++line) {
      __builtin_prefetch(data + at + 64 * line + 4096);
    }
    QUERN_UNROLL for (int i = 0; i < 8; ++i) {
      const auto* from = reinterpret_cast<const __m256i*>(data + at + 32 * i);
      sum[i] = _mm256_add_epi64(sum[i], _mm256_loadu_si256(from));
    }
  }
  std::uint64_t words[4], total = 0;
  QUERN_UNROLL for (int i = 1; i < 8; ++i) sum[0] = _mm256_add_epi64(sum[0], sum[i]);
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(words), sum[0]);
  for (const std::uint64_t word : words) total += word;
  return total;
}

}  // namespace quern::kernels
