// What this machine can do at most, measured: read bandwidth of memory and of the second-level
// cache, and the arithmetic rates that the kernels' inner loops are made of. `quern bench` states
// every kernel as a share of these; nothing else calls it.
#pragma once

#include <cstdint>
#include <span>

#include "base/threads.h"
#include "kernels/cpu/probe_loops.h"

namespace quern::kernels {

// The loops of an instruction set. Empty where the processor or the build has none.
std::span<const ProbeLoop> probe_loops_avx2();
std::span<const ProbeLoop> probe_loops_avx512();

// Operations per second of all threads together; 0 where the machine has no such instructions.
// int4 is 4-bit weights × int8: on AVX2 eight products fit a 16-bit sum, so it is above int8; with
// vpdpbusd the two are one.
struct Peaks {
  double memory = 0;  // bytes read per second from memory
  double cache = 0;   // bytes read per second from the second-level cache
  double f32 = 0, bf16 = 0, int8 = 0, int4 = 0;
};

// The best of many short runs, on all threads of `pool`: about two seconds.
Peaks measure_peaks(ThreadPool& pool);

// Operations per second of one loop on all threads, eight chunks of `rounds` for each; the best
// of `repeats`.
double measure_loop(ThreadPool& pool, const ProbeLoop& loop, std::int64_t rounds, int repeats);

// The f32 rate alone: whether the processors run at the same speed as when the peaks were measured.
double measure_f32(ThreadPool& pool, std::int64_t rounds, int repeats);

// Bytes read per second by all threads from a buffer that no cache holds; the best of a few runs.
// Throws: kOutOfMemory.
double measure_read_bandwidth(ThreadPool& pool);

}  // namespace quern::kernels
