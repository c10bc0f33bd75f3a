#include <fmt/format.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "attention/hardware.h"
#include "base/cpu_features.h"
#include "base/errors/base.h"

namespace quern::attention {
namespace {

struct Profile {
  std::string_view name, description;
  bool x86 = false, avx2 = false, avx512 = false, amx = false;
  int sm = 0;
  bool amd_gpu = false, ascend = false, intel_gpu = false;
};

constexpr std::array kProfiles = {
    Profile{"t4", "NVIDIA T4 (SM75) in an x86 server with AVX-512", true, true, true, false, 75},
    Profile{"a100", "NVIDIA A100 (SM80) in an x86 server with AVX2", true, true, false, false, 80},
    Profile{"rtx4090", "NVIDIA RTX 4090 (SM89) in an x86 machine with AVX2", true, true, false,
            false, 89},
    Profile{"l40s", "NVIDIA L40S (SM89) in an x86 server with AVX-512", true, true, true, false,
            89},
    Profile{"h20", "NVIDIA H20 (SM90) in an x86 server with AMX", true, true, true, true, 90},
    Profile{"h100", "NVIDIA H100 (SM90) in an x86 server with AMX", true, true, true, true, 90},
    Profile{"h200", "NVIDIA H200 (SM90) in an x86 server with AMX", true, true, true, true, 90},
    Profile{"gh200", "NVIDIA GH200 (SM90) with an Arm processor", false, false, false, false, 90},
    Profile{"b200", "NVIDIA B200 (SM100) in an x86 server with AMX", true, true, true, true, 100},
    Profile{"gb200", "NVIDIA GB200 (SM100) with an Arm processor", false, false, false, false, 100},
    Profile{"b300", "NVIDIA B300 (SM103) in an x86 server with AMX", true, true, true, true, 103},
    Profile{"thor", "NVIDIA Jetson Thor (SM110) with an Arm processor", false, false, false, false,
            110},
    Profile{"rtx5090", "NVIDIA RTX 5090 (SM120) in an x86 machine with AVX-512", true, true, true,
            false, 120},
    Profile{"mi300x", "AMD MI300X in an x86 server with AVX-512", true, true, true, false, 0, true},
    Profile{"ascend910b", "Ascend 910B NPU with an Arm processor", false, false, false, false, 0,
            false, true},
    Profile{"b580", "Intel Arc B580 in an x86 machine with AVX2", true, true, false, false, 0,
            false, false, true},
    Profile{"xeon-amx", "Intel Xeon with AVX-512 and AMX, no GPU", true, true, true, true},
    Profile{"epyc-avx512", "AMD EPYC with AVX-512, no GPU", true, true, true, false},
    Profile{"x86-avx2", "x86 processor with AVX2, no GPU", true, true, false, false},
    Profile{"arm64", "Arm processor, no GPU"},
};

// Substrings of NVIDIA's product names and the compute capability behind them, special ones first.
struct GpuName {
  std::string_view part;
  int sm;
};
constexpr std::array kGpuNames = {
    GpuName{"B300", 103}, GpuName{"GB300", 103},  GpuName{"B200", 100},      GpuName{"B100", 100},
    GpuName{"GH200", 90}, GpuName{"H200", 90},    GpuName{"H100", 90},       GpuName{"H800", 90},
    GpuName{"H20", 90},   GpuName{"RTX 50", 120}, GpuName{"Blackwell", 120}, GpuName{"RTX 40", 89},
    GpuName{"L40", 89},   GpuName{"L4", 89},      GpuName{"Ada", 89},        GpuName{"A100", 80},
    GpuName{"A800", 80},  GpuName{"A30", 80},     GpuName{"RTX 30", 86},     GpuName{"A40", 86},
    GpuName{"A10", 86},   GpuName{"T4", 75},      GpuName{"RTX 20", 75},     GpuName{"V100", 70},
};

// The first NVIDIA GPU that the kernel's driver tells of: its product name, or "".
std::string nvidia_gpu() {
  std::error_code failed;
  std::filesystem::directory_iterator gpus("/proc/driver/nvidia/gpus", failed);
  if (failed || gpus == std::filesystem::directory_iterator()) return {};
  std::ifstream file(gpus->path() / "information");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("Model:")) continue;
    const size_t begin = line.find_first_not_of(" \t", 6);
    return begin == line.npos ? std::string() : line.substr(begin);
  }
  return "an NVIDIA GPU";
}

std::string describe_cpu(const CpuFeatures& cpu, const Hardware& hardware) {
  std::string text = cpu.model.empty() ? "unknown processor" : cpu.model;
  const int cpus = usable_cpus();
  text += fmt::format(", {} usable CPU{}", cpus, cpus == 1 ? "" : "s");
  if (hardware.avx2) text += ", AVX2";
  if (hardware.avx512) text += ", AVX-512";
  if (cpu.avx512_vnni) text += ", VNNI";
  if (cpu.avx512_bf16) text += ", BF16";
  if (hardware.amx) text += ", AMX";
  return text;
}

}  // namespace

Hardware probe_hardware() {
  const CpuFeatures& cpu = cpu_features();
  Hardware hardware;
  hardware.name = "this machine";
#if defined(__x86_64__)
  hardware.x86 = true;
#endif
  hardware.avx2 = cpu.avx2_fma_f16c;
  hardware.avx512 = cpu.avx512;
  hardware.amx = cpu.amx_bf16;
  hardware.description = describe_cpu(cpu, hardware);
  std::error_code failed;
  hardware.amd_gpu = std::filesystem::exists("/dev/kfd", failed);
  hardware.ascend = std::filesystem::exists("/dev/davinci0", failed);
  std::string gpus;
  if (const std::string name = nvidia_gpu(); !name.empty()) {
    for (const GpuName& known : kGpuNames) {
      if (name.find(known.part) == name.npos) continue;
      hardware.sm = known.sm;
      break;
    }
    gpus += ", " + name +
            (hardware.sm ? fmt::format(" (SM{})", *hardware.sm)
                         : std::string(" of unknown compute capability"));
  }
  if (hardware.amd_gpu) gpus += ", an AMD GPU";
  if (hardware.ascend) gpus += ", an Ascend NPU";
  hardware.description += gpus.empty() ? ", no GPU" : gpus;
  return hardware;
}

std::vector<std::string_view> hardware_names() {
  std::vector<std::string_view> names;
  for (const Profile& profile : kProfiles) names.push_back(profile.name);
  return names;
}

Hardware hardware_named(std::string_view name) {
  std::string allowed;
  for (const Profile& profile : kProfiles) {
    if (profile.name != name) {
      allowed += (allowed.empty() ? "" : ", ") + std::string(profile.name);
      continue;
    }
    Hardware hardware;
    hardware.name = profile.name;
    hardware.description = profile.description;
    hardware.x86 = profile.x86;
    hardware.avx2 = profile.avx2;
    hardware.avx512 = profile.avx512;
    hardware.amx = profile.amx;
    if (profile.sm > 0) hardware.sm = profile.sm;
    hardware.amd_gpu = profile.amd_gpu;
    hardware.ascend = profile.ascend;
    hardware.intel_gpu = profile.intel_gpu;
    return hardware;
  }
  throw Error(
      errors::kInvalidFlagValue,
      {{"flag", "--hardware"}, {"value", name}, {"allowed", allowed}, {"param", "--hardware"}});
}

}  // namespace quern::attention
