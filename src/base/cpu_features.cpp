#include "base/cpu_features.h"

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <system_error>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace quern {
namespace {

#if defined(__x86_64__)
CpuFeatures probe() {
  CpuFeatures f;
  unsigned a = 0, b = 0, c = 0, d = 0;
  char text[49] = {};
  if (__get_cpuid(0, &a, &b, &c, &d)) {
    std::memcpy(text, &b, 4);
    std::memcpy(text + 4, &d, 4);
    std::memcpy(text + 8, &c, 4);
    f.vendor = std::string(text, 12);
  }
  for (unsigned leaf = 0; leaf < 3; ++leaf) {
    if (!__get_cpuid(0x80000002u + leaf, &a, &b, &c, &d)) break;
    const unsigned words[4] = {a, b, c, d};
    std::memcpy(text + 16 * leaf, words, 16);
  }
  f.model = text;
  f.model.erase(
      std::find_if(f.model.rbegin(), f.model.rend(), [](char x) { return x != ' '; }).base(),
      f.model.end());
  // __builtin_cpu_supports also asks whether the operating system saves the registers.
  __builtin_cpu_init();
  unsigned leaf1_c = 0;
  if (__get_cpuid(1, &a, &b, &c, &d)) leaf1_c = c;
  const bool f16c = (leaf1_c & bit_F16C) != 0;
  f.avx2_fma_f16c = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && f16c;
  f.avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
             __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  f.avx512_vnni = f.avx512 && __builtin_cpu_supports("avx512vnni");
  unsigned leaf7_d = 0, leaf71_a = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d)) leaf7_d = d;
  if (__get_cpuid_count(7, 1, &a, &b, &c, &d)) leaf71_a = a;
  f.avx512_bf16 = f.avx512 && (leaf71_a & (1u << 5)) != 0;
  f.avx512_fp16 = f.avx512 && (leaf7_d & (1u << 23)) != 0;
  const bool amx = (leaf7_d & (1u << 22)) != 0 && (leaf7_d & (1u << 24)) != 0;  // AMX-BF16, TILE
#if defined(SYS_arch_prctl)
  // Linux grants the tile state on request only (ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA).
  f.amx_bf16 = amx && syscall(SYS_arch_prctl, 0x1023, 18) == 0;
#endif
  return f;
}
#else
CpuFeatures probe() { return {}; }
#endif

// Reads one number of a cgroup file; "max" and a missing file give `none`.
double cgroup_number(std::ifstream& file, double none) {
  std::string word;
  if (!(file >> word) || word == "max") return none;
  try {
    return std::stod(word);
  } catch (const std::exception&) {
    return none;
  }
}

}  // namespace

const CpuFeatures& cpu_features() {
  static const CpuFeatures features = probe();
  return features;
}

int usable_cpus() {
  cpu_set_t set;
  CPU_ZERO(&set);
  int cpus = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cpus = std::max(1, CPU_COUNT(&set));
  double quota = -1, period = -1;
  if (std::ifstream v2("/sys/fs/cgroup/cpu.max"); v2) {
    quota = cgroup_number(v2, -1);
    period = cgroup_number(v2, -1);
  } else {
    std::ifstream v1_quota("/sys/fs/cgroup/cpu/cpu.cfs_quota_us");
    std::ifstream v1_period("/sys/fs/cgroup/cpu/cpu.cfs_period_us");
    quota = cgroup_number(v1_quota, -1);
    period = cgroup_number(v1_period, -1);
  }
  if (quota > 0 && period > 0) cpus = std::min(cpus, static_cast<int>(quota / period));
  return std::max(1, cpus);
}

int numa_nodes() {
  int nodes = 0;
  std::error_code failed;
  for (std::filesystem::directory_iterator it("/sys/devices/system/node", failed), end;
       !failed && it != end; it.increment(failed)) {
    const std::string name = it->path().filename().string();
    const bool node = name.starts_with("node") && name.size() > 4 &&
                      name.find_first_not_of("0123456789", 4) == name.npos;
    if (node) ++nodes;
  }
  return std::max(1, nodes);
}

long long total_memory_bytes() {
  double bytes = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  std::ifstream v2("/sys/fs/cgroup/memory.max");
  std::ifstream v1("/sys/fs/cgroup/memory/memory.limit_in_bytes");
  const double limit = v2 ? cgroup_number(v2, -1) : cgroup_number(v1, -1);
  if (limit > 0) bytes = std::min(bytes, limit);
  return static_cast<long long>(bytes);
}

long long usable_memory_bytes() {
  double available = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  std::ifstream meminfo("/proc/meminfo");
  for (std::string key; meminfo >> key;) {
    double kib = 0;
    if (key == "MemAvailable:" && meminfo >> kib) {
      available = kib * 1024;
      break;
    }
    meminfo.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  std::ifstream limit_file("/sys/fs/cgroup/memory.max");
  std::ifstream used_file("/sys/fs/cgroup/memory.current");
  const double limit = cgroup_number(limit_file, -1), used = cgroup_number(used_file, 0);
  if (limit > 0) available = std::min(available, std::max(0.0, limit - used));
  return static_cast<long long>(available);
}

}  // namespace quern
