#include "kernels/probe.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/aligned_buffer.h"
#include "kernels/cpu/probe_loops.h"
#include "kernels/ops.h"

namespace quern::kernels {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

std::uint64_t read_portable(const std::byte* data, std::int64_t bytes) {
  std::uint64_t sum[4] = {};
  for (std::int64_t line = 0; line < bytes; line += 64) {
    __builtin_prefetch(data + line + 4096);
    for (int i = 0; i < 8; ++i) {
      std::uint64_t word;
      std::memcpy(&word, data + line + 8 * i, 8);
      sum[i % 4] += word;
    }
  }
  return sum[0] + sum[1] + sum[2] + sum[3];
}

using Read = std::uint64_t (*)(const std::byte*, std::int64_t);

Read reader() {
#if defined(__x86_64__)
  if (ops_for(Isa::kAvx2)) return read_avx2;
#endif
  return read_portable;
}

// `chunks` parts of `bytes` each, read one after the other by whichever thread is free; with
// `own`, a thread reads one part again and again that is its own.
double read_rate(ThreadPool& pool, std::int64_t chunks, std::int64_t bytes, bool own, int repeats) {
  const std::int64_t size = (own ? pool.size() : chunks) * bytes;
  AlignedBuffer buffer(size);
  // Pages that were never written are all one page of zeros.
  std::memset(buffer.data(), 1, static_cast<std::size_t>(size));
  std::vector<std::uint64_t> sums(static_cast<std::size_t>(pool.size()) * 8);
  const Read read = reader();
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const auto start = Clock::now();
    pool.for_each(chunks, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
      for (std::int64_t chunk = begin; chunk < end; ++chunk) {
        const std::int64_t part = own ? thread : chunk;
        sums[static_cast<std::size_t>(thread) * 8] += read(buffer.data() + part * bytes, bytes);
      }
    });
    best = std::max(best, static_cast<double>(chunks * bytes) / seconds_since(start));
  }
  CHECK(sums[0] != 0, sums[0]);  // the reads have a use
  return best;
}

}  // namespace

std::span<const ProbeLoop> probe_loops_avx2() {
#if defined(__x86_64__)
  if (ops_for(Isa::kAvx2)) return kAvx2ProbeLoops;
#endif
  return {};
}

std::span<const ProbeLoop> probe_loops_avx512() {
#if defined(__x86_64__)
  if (ops_for(Isa::kAvx512)) return kAvx512ProbeLoops;
#endif
  return {};
}

double measure_loop(ThreadPool& pool, const ProbeLoop& loop, std::int64_t rounds, int repeats) {
  double best = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    const std::int64_t chunks = std::int64_t{8} * pool.size();
    const auto start = Clock::now();
    pool.for_each(chunks, 1, [&](std::int64_t begin, std::int64_t end, int) {
      loop.run((end - begin) * rounds);
    });
    const double operations = loop.operations * static_cast<double>(rounds * chunks);
    best = std::max(best, operations / seconds_since(start));
  }
  return best;
}

double measure_read_bandwidth(ThreadPool& pool) {
  return read_rate(pool, 256, std::int64_t{1} << 20, false, 12);
}

Peaks measure_peaks(ThreadPool& pool) {
  constexpr std::int64_t kRounds = 10'000;  // of a chunk; half a millisecond in all
  constexpr int kRepeats = 60;
  Peaks peaks;
  for (const auto loops : {probe_loops_avx2(), probe_loops_avx512()}) {
    for (const ProbeLoop& loop : loops) {
      double& peak = loop.rate == ProbeLoop::Rate::kF32    ? peaks.f32
                     : loop.rate == ProbeLoop::Rate::kBF16 ? peaks.bf16
                     : loop.rate == ProbeLoop::Rate::kInt8 ? peaks.int8
                                                           : peaks.int4;
      peak = std::max(peak, measure_loop(pool, loop, kRounds, kRepeats));
    }
  }
  peaks.int4 = std::max(peaks.int4, peaks.int8);
  peaks.cache = read_rate(pool, 128, std::int64_t{256} << 10, true, 40);
  peaks.memory = measure_read_bandwidth(pool);
  return peaks;
}

}  // namespace quern::kernels
