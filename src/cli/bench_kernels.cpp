// `quern bench kernels`: each kernel by itself, in GB/s of the stored format and GOP/s, and as a
// share of what this machine can do, which is measured first.
#include <fmt/format.h>

#include <cstdio>
#include <nlohmann/json.hpp>

#include "base/cpu_features.h"
#include "cli/commands.h"
#include "engine/kernel_benchmark.h"
#include "kernels/ops.h"

namespace quern::cli {
namespace {

nlohmann::ordered_json json_of(const engine::KernelResult& r) {
  const auto number = [](bool known, double value) {
    return known ? nlohmann::ordered_json(value) : nlohmann::ordered_json();
  };
  return {{"kernel", r.kernel},
          {"shape", r.shape},
          {"microseconds", r.seconds * 1e6},
          {"best_microseconds", r.best_seconds * 1e6},
          {"gb_per_s", number(r.bytes > 0, r.bytes / r.seconds / 1e9)},
          {"gop_per_s", number(r.operations > 0, r.operations / r.seconds / 1e9)},
          {"bound", engine::name_of(r.bound)},
          {"share", number(r.bound != engine::Limit::kNone, r.share)},
          {"repeats", r.repeats},
          {"calm_repeats", r.calm_repeats}};
}

void print_row(const engine::KernelResult& r) {
  const auto rate = [&](double amount) {
    return amount > 0 ? fmt::format("{:8.1f}", amount / r.seconds / 1e9) : fmt::format("{:>8}", "");
  };
  const std::string share = r.bound == engine::Limit::kNone
                                ? ""
                                : fmt::format("{:4.0f} % of {}", 100 * r.share, name_of(r.bound));
  fmt::print("{:25} {:32} {:11.1f} {} {}  {:16}{}\n", r.kernel, r.shape, r.seconds * 1e6,
             rate(r.bytes), rate(r.operations), share, r.calm_repeats < 3 ? "  noisy" : "");
  std::fflush(stdout);
}

void print_peaks(const kernels::Peaks& peaks, int threads) {
  fmt::print("{}, {} threads, kernels for {}\n", cpu_features().model, threads,
             kernels::ops().name);
  fmt::print(
      "limits: memory {:.1f} GB/s, cache {:.1f} GB/s, f32 {:.0f} GFLOP/s, bf16 {:.0f} GFLOP/s, "
      "int8 {:.0f} GOP/s, 4-bit {:.0f} GOP/s\n",
      peaks.memory / 1e9, peaks.cache / 1e9, peaks.f32 / 1e9, peaks.bf16 / 1e9, peaks.int8 / 1e9,
      peaks.int4 / 1e9);
  fmt::print("{:25} {:32} {:>11} {:>8} {:>8}  {}\n", "kernel", "shape", "us", "GB/s", "GOP/s",
             "share of the limit");
}

}  // namespace

int bench_kernels_command(const Options& options) {
  ThreadPool pool(options.engine.threads > 0 ? options.engine.threads : usable_cpus());
  const kernels::Peaks peaks = kernels::measure_peaks(pool);
  if (!options.json) print_peaks(peaks, pool.size());
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  engine::measure_kernels(
      pool, peaks, {.repeats = static_cast<int>(options.bench_repeats), .only = options.bench_only},
      [&](const engine::KernelResult& result) {
        if (options.json) {
          rows.push_back(json_of(result));
        } else {
          print_row(result);
        }
      });
  if (options.json) {
    const nlohmann::ordered_json report = {{"processor", cpu_features().model},
                                           {"isa", kernels::ops().name},
                                           {"threads", pool.size()},
                                           {"limits",
                                            {{"memory_gb_per_s", peaks.memory / 1e9},
                                             {"cache_gb_per_s", peaks.cache / 1e9},
                                             {"f32_gflop_per_s", peaks.f32 / 1e9},
                                             {"bf16_gflop_per_s", peaks.bf16 / 1e9},
                                             {"int8_gop_per_s", peaks.int8 / 1e9},
                                             {"int4_gop_per_s", peaks.int4 / 1e9}}},
                                           {"kernels", rows}};
    fmt::print("{}\n", report.dump(2));
  }
  return 0;
}

}  // namespace quern::cli
