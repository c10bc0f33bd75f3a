// A driver library for hardware_test.cpp with two made-up devices. FAKE_CUDA_FAULT=1 at compile
// time makes its first call fail, as on a machine whose driver does not match its kernel module.
#include <cstddef>
#include <cstdio>

#ifndef FAKE_CUDA_FAULT
#define FAKE_CUDA_FAULT 0
#endif

extern "C" {
int cuInit(unsigned flags) { return FAKE_CUDA_FAULT != 0 ? 803 : flags == 0 ? 0 : 1; }
int cuDriverGetVersion(int* version) {
  *version = 12080;
  return 0;
}
int cuDeviceGetCount(int* count) {
  *count = 2;
  return 0;
}
int cuDeviceGet(int* device, int ordinal) {
  *device = 70 + ordinal;
  return 0;
}
int cuDeviceGetName(char* text, int size, int device) {
  std::snprintf(text, static_cast<std::size_t>(size), "Fake GPU %d", device);
  return 0;
}
int cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (attribute != 75 && attribute != 76) return 1;
  *value = attribute == 75 ? 10 : device - 67;  // SM 10.3 and 10.4
  return 0;
}
int cuDeviceTotalMem_v2(std::size_t* bytes, int device) {
  *bytes = static_cast<std::size_t>(device) << 30;
  return 0;
}
}
