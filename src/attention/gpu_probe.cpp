#include "attention/gpu_probe.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>

namespace quern::attention {
namespace {

constexpr int kMaxGpus = 1024;
constexpr int kMajorAttribute = 75, kMinorAttribute = 76;  // of the compute capability

// The few functions of the driver's interface that are asked, by their published signatures.
struct CudaDriver {
  int (*init)(unsigned flags) = nullptr;
  int (*version)(int* version) = nullptr;
  int (*count)(int* count) = nullptr;
  int (*get)(int* device, int ordinal) = nullptr;
  int (*name)(char* text, int size, int device) = nullptr;
  int (*attribute)(int* value, int attribute, int device) = nullptr;
  int (*memory)(std::size_t* bytes, int device) = nullptr;
};

template <typename F>
bool load(void* library, const char* symbol, F& function) {
  function = reinterpret_cast<F>(dlsym(library, symbol));
  return function != nullptr;
}

bool load_all(void* library, CudaDriver& driver) {
  return load(library, "cuInit", driver.init) &&
         load(library, "cuDriverGetVersion", driver.version) &&
         load(library, "cuDeviceGetCount", driver.count) &&
         load(library, "cuDeviceGet", driver.get) &&
         load(library, "cuDeviceGetName", driver.name) &&
         load(library, "cuDeviceGetAttribute", driver.attribute) &&
         load(library, "cuDeviceTotalMem_v2", driver.memory);
}

// The device of that number, or one without a name where the driver does not answer.
Gpu describe(const CudaDriver& driver, int ordinal) {
  Gpu gpu;
  int device = 0;
  if (driver.get(&device, ordinal) != 0) return gpu;
  std::array<char, 256> name{};
  if (driver.name(name.data(), static_cast<int>(name.size()) - 1, device) == 0)
    gpu.name = name.data();
  int major = 0, minor = 0;
  if (driver.attribute(&major, kMajorAttribute, device) == 0 &&
      driver.attribute(&minor, kMinorAttribute, device) == 0) {
    gpu.sm = major * 10 + minor;
  }
  std::size_t bytes = 0;
  if (driver.memory(&bytes, device) == 0) gpu.bytes = static_cast<std::int64_t>(bytes);
  return gpu;
}

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

int sm_of_name(std::string_view name) {
  for (const GpuName& known : kGpuNames) {
    if (name.find(known.part) != name.npos) return known.sm;
  }
  return 0;
}

}  // namespace

GpuDriver probe_cuda_driver(const std::string& library) noexcept {
  GpuDriver found;
  // Stays open: the driver's own threads may outlive the question.
  void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return found;
  CudaDriver driver;
  if (!load_all(handle, driver) || driver.init(0) != 0) return found;
  int count = 0;
  if (driver.count(&count) != 0 || count < 0 || count > kMaxGpus) return found;
  if (driver.version(&found.version) != 0) found.version = 0;
  for (int i = 0; i < count; ++i) found.gpus.push_back(describe(driver, i));
  return found;
}

GpuDriver probe_kernel_driver(const std::string& folder) {
  GpuDriver found;
  std::error_code failed;
  for (std::filesystem::directory_iterator it(folder, failed), end; !failed && it != end;
       it.increment(failed)) {
    Gpu gpu{.name = "an NVIDIA GPU"};
    std::ifstream file(it->path() / "information");
    for (std::string line; std::getline(file, line);) {
      if (!line.starts_with("Model:")) continue;
      const std::size_t begin = line.find_first_not_of(" \t", 6);
      if (begin != line.npos) gpu.name = line.substr(begin);
      break;
    }
    gpu.sm = sm_of_name(gpu.name);
    found.gpus.push_back(std::move(gpu));
  }
  return found;
}

}  // namespace quern::attention
