#include "attention/hardware.h"

#include <fmt/format.h>

#include <filesystem>
#include <system_error>

#include "attention/gpu_probe.h"
#include "base/cpu_features.h"
#include "kernels/ops.h"

namespace quern::attention {
namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

std::string describe_cpu(const CpuFeatures& cpu, const Hardware& hardware) {
  std::string text = cpu.model.empty() ? "unknown processor" : cpu.model;
  text += fmt::format(", {} usable CPU{}", hardware.cpus, hardware.cpus == 1 ? "" : "s");
  if (hardware.numa_nodes > 1) text += fmt::format(" in {} NUMA nodes", hardware.numa_nodes);
  if (hardware.avx2) text += ", AVX2";
  if (hardware.avx512) text += ", AVX-512";
  if (hardware.avx512_vnni) text += ", VNNI";
  if (hardware.avx512_bf16) text += ", BF16";
  if (hardware.avx512_fp16) text += ", FP16";
  if (hardware.amx) text += ", AMX";
  text += fmt::format(", {:.0f} GiB of memory", static_cast<double>(hardware.host_bytes) / kGiB);
  return text;
}

void probe_cpu(Hardware& hardware) {
  const CpuFeatures& cpu = cpu_features();
#if defined(__x86_64__)
  hardware.x86 = true;
#endif
  hardware.avx2 = cpu.avx2_fma_f16c;
  hardware.avx512 = cpu.avx512;
  hardware.avx512_vnni = cpu.avx512_vnni;
  hardware.avx512_bf16 = cpu.avx512_bf16;
  hardware.avx512_fp16 = cpu.avx512_fp16;
  hardware.amx = kernels::tile_attention() != nullptr;
  hardware.cpu_vendor = cpu.vendor;
  hardware.cpus = usable_cpus();
  hardware.numa_nodes = numa_nodes();
  hardware.host_bytes = total_memory_bytes();
  hardware.description = describe_cpu(cpu, hardware);
}

// The driver's answer as facts and as words for the description.
std::string add_gpus(const GpuDriver& driver, Hardware& hardware) {
  if (driver.gpus.empty()) return "";
  const Gpu& first = driver.gpus.front();
  hardware.gpus = static_cast<int>(driver.gpus.size());
  hardware.gpu_name = first.name;
  hardware.gpu_bytes = first.bytes;
  if (first.sm > 0) hardware.sm = first.sm;
  if (driver.version > 0) {
    hardware.driver = fmt::format("CUDA {}.{}", driver.version / 1000, driver.version % 1000 / 10);
  }
  std::string text = ", ";
  if (hardware.gpus > 1) text += fmt::format("{} × ", hardware.gpus);
  text += first.name + (first.sm > 0 ? fmt::format(" (SM{})", first.sm)
                                     : std::string(" of unknown compute capability"));
  if (first.bytes > 0) {
    text += fmt::format(" with {:.0f} GiB", static_cast<double>(first.bytes) / kGiB);
  }
  return text + (hardware.driver.empty() ? "" : ", driver for " + hardware.driver);
}

}  // namespace

Hardware probe_hardware() {
  Hardware hardware;
  hardware.name = "this machine";
  probe_cpu(hardware);
  std::error_code failed;
  hardware.amd_gpu = std::filesystem::exists("/dev/kfd", failed);
  hardware.ascend = std::filesystem::exists("/dev/davinci0", failed);
  GpuDriver driver = probe_cuda_driver();
  if (driver.gpus.empty()) driver = probe_kernel_driver();
  std::string gpus = add_gpus(driver, hardware);
  if (hardware.amd_gpu) gpus += ", an AMD GPU";
  if (hardware.ascend) gpus += ", an Ascend NPU";
  hardware.description += gpus.empty() ? ", no GPU" : gpus;
  return hardware;
}

}  // namespace quern::attention
