// The machines that --hardware and --simulate-hardware know by name. GPU memory is what one card of
// the product has; main memory is what such a machine is taken to have, since that differs.
#include <algorithm>
#include <array>

#include "attention/hardware.h"
#include "base/error.h"
#include "base/errors/base.h"

namespace quern::attention {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
constexpr std::int64_t kGiB = std::int64_t{1} << 30;

enum class Cpu { kArm, kAvx2, kAvx512, kAvx512Bf16, kAmx };
enum class Accelerator { kNone, kNvidia, kAmd, kAscend, kIntel };

struct Profile {
  std::string_view name, description;
  Cpu cpu = Cpu::kArm;
  std::int64_t host_gib = 0;
  Accelerator accelerator = Accelerator::kNone;
  int sm = 0;  // NVIDIA only
  std::int64_t gpu_bytes = 0;
};

constexpr auto kNvidia = Accelerator::kNvidia;
constexpr std::array kProfiles = {
    Profile{"t4", "NVIDIA T4 (SM75) in an x86 server with AVX-512", Cpu::kAvx512, 256, kNvidia, 75,
            15 * kGiB},
    Profile{"a100", "NVIDIA A100 (SM80) in an x86 server with AVX2", Cpu::kAvx2, 1024, kNvidia, 80,
            80 * kGiB},
    Profile{"rtx4090", "NVIDIA RTX 4090 (SM89) in an x86 machine with AVX2", Cpu::kAvx2, 128,
            kNvidia, 89, 24 * kGiB},
    Profile{"l40s", "NVIDIA L40S (SM89) in an x86 server with AVX-512", Cpu::kAvx512, 512, kNvidia,
            89, 46068 * kMiB},
    Profile{"h20", "NVIDIA H20 (SM90) in an x86 server with AMX", Cpu::kAmx, 1024, kNvidia, 90,
            96 * kGiB},
    Profile{"h100", "NVIDIA H100 (SM90) in an x86 server with AMX", Cpu::kAmx, 1024, kNvidia, 90,
            80 * kGiB},
    Profile{"h200", "NVIDIA H200 (SM90) in an x86 server with AMX", Cpu::kAmx, 1024, kNvidia, 90,
            143771 * kMiB},
    Profile{"gh200", "NVIDIA GH200 (SM90) with an Arm processor", Cpu::kArm, 480, kNvidia, 90,
            96 * kGiB},
    Profile{"b200", "NVIDIA B200 (SM100) in an x86 server with AMX", Cpu::kAmx, 1024, kNvidia, 100,
            180 * kGiB},
    Profile{"gb200", "NVIDIA GB200 (SM100) with an Arm processor", Cpu::kArm, 480, kNvidia, 100,
            189471 * kMiB},
    Profile{"b300", "NVIDIA B300 (SM103) in an x86 server with AMX", Cpu::kAmx, 1024, kNvidia, 103,
            275040 * kMiB},
    Profile{"gb300", "NVIDIA GB300 (SM103) with an Arm processor", Cpu::kArm, 480, kNvidia, 103,
            284208 * kMiB},
    // One memory serves the processor and the GPU.
    Profile{"thor", "NVIDIA Jetson Thor (SM110) with an Arm processor", Cpu::kArm, 128, kNvidia,
            110, 128 * kGiB},
    Profile{"rtx5090", "NVIDIA RTX 5090 (SM120) in an x86 machine with AVX-512", Cpu::kAvx512Bf16,
            128, kNvidia, 120, 32 * kGiB},
    Profile{"mi300x", "AMD MI300X in an x86 server with AVX-512", Cpu::kAvx512Bf16, 1024,
            Accelerator::kAmd, 0, 192 * kGiB},
    Profile{"ascend910b", "Ascend 910B NPU with an Arm processor", Cpu::kArm, 512,
            Accelerator::kAscend, 0, 64 * kGiB},
    Profile{"b580", "Intel Arc B580 in an x86 machine with AVX2", Cpu::kAvx2, 64,
            Accelerator::kIntel, 0, 12 * kGiB},
    Profile{"xeon-amx", "Intel Xeon with AVX-512 and AMX, no GPU", Cpu::kAmx, 512},
    Profile{"xeon-avx512", "Intel Xeon with AVX-512 and VNNI, no GPU", Cpu::kAvx512, 256},
    Profile{"zen4", "AMD EPYC with AVX-512 and BF16 (Zen 4), no GPU", Cpu::kAvx512Bf16, 384},
    Profile{"epyc-avx512", "AMD EPYC with AVX-512, no GPU", Cpu::kAvx512Bf16, 384},
    Profile{"avx2", "x86 processor with AVX2, no GPU", Cpu::kAvx2, 64},
    Profile{"x86-avx2", "x86 processor with AVX2, no GPU", Cpu::kAvx2, 64},
    Profile{"arm64", "Arm processor, no GPU", Cpu::kArm, 64},
};

Hardware made(const Profile& profile) {
  Hardware hardware;
  hardware.name = profile.name;
  hardware.description = profile.description;
  hardware.x86 = profile.cpu != Cpu::kArm;
  hardware.avx2 = profile.cpu >= Cpu::kAvx2;
  hardware.avx512 = hardware.avx512_vnni = profile.cpu >= Cpu::kAvx512;
  hardware.avx512_bf16 = profile.cpu >= Cpu::kAvx512Bf16;
  hardware.amx = hardware.avx512_fp16 = profile.cpu == Cpu::kAmx;
  hardware.host_bytes = profile.host_gib * kGiB;
  if (profile.accelerator != Accelerator::kNone) {
    const std::string_view words = profile.description;
    hardware.gpu_name =
        words.substr(0, std::min({words.find(" ("), words.find(" in "), words.find(" with ")}));
  }
  hardware.gpu_bytes = profile.gpu_bytes;
  if (profile.accelerator != Accelerator::kNone) hardware.gpus = 1;
  if (profile.sm > 0) hardware.sm = profile.sm;
  hardware.amd_gpu = profile.accelerator == Accelerator::kAmd;
  hardware.ascend = profile.accelerator == Accelerator::kAscend;
  hardware.intel_gpu = profile.accelerator == Accelerator::kIntel;
  return hardware;
}

}  // namespace

std::vector<std::string_view> hardware_names() {
  std::vector<std::string_view> names;
  for (const Profile& profile : kProfiles) names.push_back(profile.name);
  return names;
}

Hardware hardware_named(std::string_view name, std::string_view flag) {
  std::string allowed;
  for (const Profile& profile : kProfiles) {
    if (profile.name == name) return made(profile);
    allowed += (allowed.empty() ? "" : ", ") + std::string(profile.name);
  }
  throw Error(errors::kInvalidFlagValue,
              {{"flag", flag}, {"value", name}, {"allowed", allowed}, {"param", flag}});
}

}  // namespace quern::attention
