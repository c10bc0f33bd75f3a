// The machine that backends are judged against: this one, probed, or a named one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::attention {

// The machine, probed once or named with --hardware. Sizes are in bytes, 0 where not known.
struct Hardware {
  std::string name;         // "this machine", "h100"
  std::string description;  // "AMD EPYC, 2 CPUs, AVX2, no GPU"

  bool x86 = false, avx2 = false, avx512 = false, amx = false;
  bool avx512_vnni = false, avx512_bf16 = false, avx512_fp16 = false;
  std::string cpu_vendor;  // "AuthenticAMD", "" in a named machine
  int cpus = 0;            // usable ones; 0 in a named machine
  int numa_nodes = 0;
  std::int64_t host_bytes = 0;  // main memory, or what the cgroup leaves of it

  std::optional<int> sm;  // compute capability ×10 of the first NVIDIA GPU
  bool amd_gpu = false, ascend = false, intel_gpu = false;
  int gpus = 0;                // accelerators of the kind above; a named machine has one
  std::string gpu_name;        // "NVIDIA H200"
  std::int64_t gpu_bytes = 0;  // memory of one
  std::string driver;          // "CUDA 12.8" as the driver tells it
  bool simulated = false;      // contracts of this machine are run here, on portable kernels
};

Hardware probe_hardware();

// A machine that one does not have, by name, for the flag that asks for it.
// Throws: kInvalidFlagValue with the known names.
Hardware hardware_named(std::string_view name, std::string_view flag = "--hardware");
std::vector<std::string_view> hardware_names();

}  // namespace quern::attention
