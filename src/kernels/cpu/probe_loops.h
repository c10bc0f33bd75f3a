// The probe's loops by instruction set, for probe.cpp: its tables are reached after a look at
// CPUID.
#pragma once

#include <cstddef>
#include <cstdint>

namespace quern::kernels {

// One chain of instructions, repeated: what the fastest loop of a kernel could be.
struct ProbeLoop {
  enum class Rate : std::uint8_t { kF32, kBF16, kInt8, kInt4 };
  Rate rate;
  const char* instructions;  // "vpdpbusd zmm"
  double operations;         // of one round; a multiply-add is two
  void (*run)(std::int64_t rounds);
};

#if defined(__x86_64__)
extern const ProbeLoop kAvx2ProbeLoops[3];
extern const ProbeLoop kAvx512ProbeLoops[3];
// Reads `bytes` (a multiple of 256) once, in order; the result depends on all of them.
std::uint64_t read_avx2(const std::byte* data, std::int64_t bytes);
#endif

}  // namespace quern::kernels
