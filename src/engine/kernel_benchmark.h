// Measures each kernel by itself against the limits of this machine (kernels/probe.h), on the
// default model's shapes. Called by `quern bench kernels`; needs no model file.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/threads.h"
#include "kernels/probe.h"

namespace quern::engine {

// What bounds a kernel: the one of memory and arithmetic that would take longer.
enum class Limit : std::uint8_t { kNone, kMemory, kCache, kF32, kBF16, kInt8, kInt4 };
std::string_view name_of(Limit limit);

// One kernel on one shape, ready to run. `run` does the work once; bytes and operations are those
// of one run.
struct KernelCase {
  std::string kernel, shape;
  double bytes = 0;                 // read, in the stored format
  double operations = 0;            // a multiply-add is two
  Limit arithmetic = Limit::kNone;  // whose peak bounds the operations
  Limit traffic = Limit::kMemory;   // kCache: the data stay in the second-level cache
  std::function<void()> run;
};

struct KernelResult {
  std::string kernel, shape;
  double seconds = 0, best_seconds = 0;  // of one run: median of the calm repeats, and the fastest
  double bytes = 0, operations = 0;
  Limit bound = Limit::kNone;
  double share = 0;                   // of the bound; 0 with kNone
  int calm_repeats = 0, repeats = 0;  // calm: the processor ran at the peaks' speed
};

struct KernelPlan {
  int repeats = 15;
  std::string only;  // part of a kernel's name; "": all
};

using KernelSink = std::function<void(const KernelResult&)>;

// Runs the cases in order; `sink` gets each result as it comes. Throws: kOutOfMemory.
void measure_kernels(ThreadPool& pool, const kernels::Peaks& peaks, const KernelPlan& plan,
                     const KernelSink& sink);

// One case. Repeats around which the probe's f32 rate is off its peak by a tenth are left out
// unless fewer than three remain.
KernelResult measure_case(ThreadPool& pool, const kernels::Peaks& peaks, int repeats,
                          const KernelCase& what);

// The groups of cases. Each builds its data, hands its cases on and frees the data again.
using CaseSink = std::function<void(const KernelCase&)>;
void matmul_cases(ThreadPool& pool, const std::string& only, const CaseSink& sink);
void expert_cases(ThreadPool& pool, const std::string& only, const CaseSink& sink);
void attention_cases(ThreadPool& pool, const std::string& only, const CaseSink& sink);
void latent_attention_cases(ThreadPool& pool, const std::string& only, const CaseSink& sink);
void small_cases(ThreadPool& pool, const std::string& only, const CaseSink& sink);

}  // namespace quern::engine
