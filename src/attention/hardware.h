// The machine that backends are judged against: this one, probed, or a named one.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace quern::attention {

// The machine, probed once or named with --hardware.
struct Hardware {
  std::string name;         // "this machine", "h100"
  std::string description;  // "AMD EPYC, 2 CPUs, AVX2, no GPU"
  bool x86 = false, avx2 = false, avx512 = false, amx = false;
  std::optional<int> sm;  // compute capability ×10 of the first NVIDIA GPU
  bool amd_gpu = false, ascend = false, intel_gpu = false;
  bool simulated = false;  // contracts of this machine are run here, on portable kernels
};
Hardware probe_hardware();
// A machine that one does not have, by name. Throws: kInvalidFlagValue with the known names.
Hardware hardware_named(std::string_view name);
std::vector<std::string_view> hardware_names();

}  // namespace quern::attention
