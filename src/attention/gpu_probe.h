// Which NVIDIA GPUs are here, asked from the driver's library. The library is opened at run time,
// so that one binary runs on machines with and without it. Called by hardware.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::attention {

struct Gpu {
  std::string name;        // "NVIDIA H200"
  int sm = 0;              // compute capability ×10; 0: not known
  std::int64_t bytes = 0;  // of memory; 0: not known
};

struct GpuDriver {
  std::vector<Gpu> gpus;  // those that CUDA_VISIBLE_DEVICES leaves, the first one first
  int version = 0;        // of CUDA as the driver supports it, 12080 for 12.8; 0: not known
};

// Empty where the library is absent, too old or tells of no device. Never throws.
GpuDriver probe_cuda_driver(const std::string& library = "libcuda.so.1") noexcept;

// What the kernel's driver tells where its library cannot be opened: names, and the compute
// capability as far as the name says it.
GpuDriver probe_kernel_driver(const std::string& folder = "/proc/driver/nvidia/gpus");

}  // namespace quern::attention
