// What this processor can do, probed once by CPUID. Kernels are chosen from it at start-up.
#pragma once

#include <string>

namespace quern {

struct CpuFeatures {
  std::string vendor;  // "AuthenticAMD"
  std::string model;   // "AMD EPYC …"
  bool avx2_fma_f16c = false;
  bool avx512 = false;       // F, BW, DQ, VL
  bool avx512_vnni = false;  // vpdpbusd
  bool avx512_bf16 = false;  // vdpbf16ps
  bool avx512_fp16 = false;  // vaddph and the like
  bool amx_bf16 = false;     // tiles, with the operating system's permission
};

// Thread-safe; probed at the first call.
const CpuFeatures& cpu_features();

// Threads this process may run at once: the smaller of the affinity mask and the cgroup quota,
// rounded down, at least 1.
int usable_cpus();

// Nodes with memory of their own; 1 where the system does not tell.
int numa_nodes();

// Bytes of memory this machine has, or this process's cgroup if that is less.
long long total_memory_bytes();

// Bytes of memory this process may still take: the smaller of MemAvailable and the cgroup limit.
long long usable_memory_bytes();

}  // namespace quern
