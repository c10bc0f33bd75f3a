#include "engine/kernel_benchmark.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace quern::engine {
namespace {

using Clock = std::chrono::steady_clock;
using kernels::Peaks;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

double peak_of(const Peaks& peaks, Limit limit) {
  switch (limit) {
    case Limit::kMemory: return peaks.memory;
    case Limit::kCache: return peaks.cache;
    case Limit::kF32: return peaks.f32;
    case Limit::kBF16: return peaks.bf16 > 0 ? peaks.bf16 : peaks.f32;
    case Limit::kInt8: return peaks.int8;
    case Limit::kInt4: return peaks.int4;
    case Limit::kNone: break;
  }
  return 0;
}

// Whether the processors run right now at the speed at which the peaks were measured: a neighbour
// on the host, or another program, shows in the f32 rate. A fifth of a millisecond.
bool calm(ThreadPool& pool, const Peaks& peaks) {
  const double rate = kernels::measure_f32(pool, 2'000, 1);
  return peaks.f32 == 0 || std::abs(rate / peaks.f32 - 1) < 0.1;
}

}  // namespace

std::string_view name_of(Limit limit) {
  switch (limit) {
    case Limit::kMemory: return "memory";
    case Limit::kCache: return "cache";
    case Limit::kF32: return "f32";
    case Limit::kBF16: return "bf16";
    case Limit::kInt8: return "int8";
    case Limit::kInt4: return "int4";
    case Limit::kNone: break;
  }
  return "none";
}

KernelResult measure_case(ThreadPool& pool, const Peaks& peaks, int repeats,
                          const KernelCase& what) {
  constexpr double kMostSeconds = 4, kEnoughSeconds = 0.06;
  what.run();  // warms caches and touches memory
  std::vector<double> all, quiet;
  const auto start = Clock::now();
  double spent = 0;  // in calm repeats
  while ((static_cast<int>(quiet.size()) < repeats || spent < kEnoughSeconds) &&
         seconds_since(start) < kMostSeconds) {
    const bool before = calm(pool, peaks);
    const auto begin = Clock::now();
    what.run();
    all.push_back(seconds_since(begin));
    if (!before || !calm(pool, peaks)) continue;
    quiet.push_back(all.back());
    spent += all.back();
  }
  const std::vector<double>& counted = quiet.size() < 3 ? all : quiet;
  KernelResult result{.kernel = what.kernel,
                      .shape = what.shape,
                      .seconds = median(counted),
                      .best_seconds = *std::min_element(all.begin(), all.end()),
                      .bytes = what.bytes,
                      .operations = what.operations,
                      .calm_repeats = static_cast<int>(quiet.size()),
                      .repeats = static_cast<int>(all.size())};
  double least = 0;
  const auto consider = [&](Limit limit, double amount) {
    const double peak = peak_of(peaks, limit);
    if (peak <= 0 || amount / peak <= least) return;
    least = amount / peak;
    result.bound = limit;
  };
  consider(what.traffic, what.bytes);
  consider(what.arithmetic, what.operations);
  result.share = least / result.seconds;
  return result;
}

void measure_kernels(ThreadPool& pool, const Peaks& peaks, const KernelPlan& plan,
                     const KernelSink& sink) {
  const auto measure = [&](const KernelCase& what) {
    if (what.kernel.find(plan.only) == std::string::npos) return;
    sink(measure_case(pool, peaks, plan.repeats, what));
  };
  matmul_cases(pool, plan.only, measure);
  expert_cases(pool, plan.only, measure);
  attention_cases(pool, plan.only, measure);
  latent_attention_cases(pool, plan.only, measure);
  small_cases(pool, plan.only, measure);
}

}  // namespace quern::engine
