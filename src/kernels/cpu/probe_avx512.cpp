// The chains that bound the AVX-512 kernels: one instruction each, on 16 independent sums.

#include <immintrin.h>

#include "kernels/cpu/probe_loops.h"

namespace quern::kernels {
namespace {

#define QUERN_UNROLL _Pragma("GCC unroll 16")
// One instruction `name a, b, acc` on every sum, again and again.
#define QUERN_CHAIN(name)                                                                         \
  for (std::int64_t i = 0; i < rounds; ++i) {                                                     \
    QUERN_UNROLL for (auto& a : acc) asm volatile(name " %2, %1, %0" : "+v"(a) : "v"(x), "v"(y)); \
  }

void fma_f32(std::int64_t rounds) {
  const __m512 x = _mm512_set1_ps(1e-3f), y = x;
  __m512 acc[16];
  QUERN_UNROLL for (auto& a : acc) a = x;
  QUERN_CHAIN("vfmadd231ps")
}

void dot_int8(std::int64_t rounds) {
  const __m512i x = _mm512_set1_epi8(3), y = _mm512_set1_epi8(-2);
  __m512i acc[16];
  QUERN_UNROLL for (auto& a : acc) a = _mm512_setzero_si512();
  QUERN_CHAIN("vpdpbusd")
}

void dot_bf16(std::int64_t rounds) {
  const __m512i x = _mm512_set1_epi16(0x3A80), y = x;  // 2^-10
  __m512 acc[16];
  QUERN_UNROLL for (auto& a : acc) a = _mm512_setzero_ps();
  QUERN_CHAIN("vdpbf16ps")
}

}  // namespace

const ProbeLoop kAvx512ProbeLoops[3] = {
    {ProbeLoop::Rate::kF32, "vfmadd231ps zmm", 16 * 32, fma_f32},
    {ProbeLoop::Rate::kInt8, "vpdpbusd zmm", 16 * 128, dot_int8},
    {ProbeLoop::Rate::kBF16, "vdpbf16ps zmm", 16 * 64, dot_bf16},
};

}  // namespace quern::kernels
