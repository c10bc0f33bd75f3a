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

// Reads `chunks` parts of `bytes` each, one after the other, by whichever thread is free; with
// `own`, a thread reads one part again and again that is its own.
class ReadProbe {
 public:
  ReadProbe(ThreadPool& pool, std::int64_t chunks, std::int64_t bytes, bool own)
      : pool_(pool),
        chunks_(chunks),
        bytes_(bytes),
        own_(own),
        buffer_((own ? pool.size() : chunks) * bytes),
        sums_(static_cast<std::size_t>(pool.size()) * 8) {
    // Pages that were never written are all one page of zeros.
    std::memset(buffer_.data(), 1, static_cast<std::size_t>(buffer_.size()));
  }

  // Bytes per second, the best of `repeats` runs.
  double measure(int repeats) {
    double best = 0;
    for (int repeat = 0; repeat < repeats; ++repeat) {
      const auto start = Clock::now();
      pool_.for_each(chunks_, 1, [&](std::int64_t begin, std::int64_t end, int thread) {
        for (std::int64_t chunk = begin; chunk < end; ++chunk) {
          const std::int64_t part = own_ ? thread : chunk;
          sums_[static_cast<std::size_t>(thread) * 8] +=
              read_(buffer_.data() + part * bytes_, bytes_);
        }
      });
      best = std::max(best, static_cast<double>(chunks_ * bytes_) / seconds_since(start));
    }
    CHECK(sums_[0] != 0, sums_[0]);  // the reads have a use
    return best;
  }

 private:
  ThreadPool& pool_;
  std::int64_t chunks_, bytes_;
  bool own_;
  AlignedBuffer buffer_;
  std::vector<std::uint64_t> sums_;
  Read read_ = reader();
};

ReadProbe memory_probe(ThreadPool& pool) {
  return ReadProbe(pool, 256, std::int64_t{1} << 20, false);
}

// The best of the turns in which the processor ran at its full speed. A virtual machine's two
// processors are at times two of one core: then everything runs at half speed, for seconds, and the
// best of one moment must not stand beside the best of another.
Peaks best_of(const std::vector<Peaks>& turns) {
  Peaks best;
  for (const Peaks& turn : turns) best.f32 = std::max(best.f32, turn.f32);
  for (const Peaks& turn : turns) {
    if (turn.f32 < 0.95 * best.f32) continue;
    best.memory = std::max(best.memory, turn.memory);
    best.cache = std::max(best.cache, turn.cache);
    best.bf16 = std::max(best.bf16, turn.bf16);
    best.int8 = std::max(best.int8, turn.int8);
    best.int4 = std::max(best.int4, turn.int4);
  }
  best.int4 = std::max(best.int4, best.int8);
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

double measure_f32(ThreadPool& pool, std::int64_t rounds, int repeats) {
  double best = 0;
  for (const auto loops : {probe_loops_avx2(), probe_loops_avx512()}) {
    for (const ProbeLoop& loop : loops) {
      if (loop.rate != ProbeLoop::Rate::kF32) continue;
      best = std::max(best, measure_loop(pool, loop, rounds, repeats));
    }
  }
  return best;
}

double measure_read_bandwidth(ThreadPool& pool) { return memory_probe(pool).measure(12); }

Peaks measure_peaks(ThreadPool& pool) {
  constexpr int kTurns = 25;
  constexpr std::int64_t kRounds = 5'000;  // of a chunk; a quarter of a millisecond in all
  ReadProbe memory = memory_probe(pool);
  ReadProbe cache(pool, 128, std::int64_t{256} << 10, true);
  std::vector<Peaks> turns;
  for (int turn = 0; turn < kTurns; ++turn) {
    Peaks now;
    now.f32 = measure_f32(pool, kRounds, 20);
    for (const auto loops : {probe_loops_avx2(), probe_loops_avx512()}) {
      for (const ProbeLoop& loop : loops) {
        if (loop.rate == ProbeLoop::Rate::kF32) continue;
        double& peak = loop.rate == ProbeLoop::Rate::kBF16   ? now.bf16
                       : loop.rate == ProbeLoop::Rate::kInt8 ? now.int8
                                                             : now.int4;
        peak = std::max(peak, measure_loop(pool, loop, kRounds, 20));
      }
    }
    now.cache = cache.measure(10);
    now.memory = memory.measure(3);
    now.f32 = std::min(now.f32, measure_f32(pool, kRounds, 20));
    turns.push_back(now);
  }
  return best_of(turns);
}

}  // namespace quern::kernels
