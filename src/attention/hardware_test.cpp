// Probing this machine, the named machines, and the driver's library with one that the build makes.
#include "attention/hardware.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "attention/gpu_probe.h"
#include "base/cpu_features.h"
#include "base/error.h"
#include "base/errors/base.h"

namespace quern::attention {
namespace {

using testing::Contains;
using testing::HasSubstr;

TEST(Hardware, IsProbed) {
  const Hardware here = probe_hardware();
  EXPECT_EQ(here.name, "this machine");
  EXPECT_EQ(here.avx2, cpu_features().avx2_fma_f16c);
  EXPECT_EQ(here.cpu_vendor, cpu_features().vendor);
  EXPECT_EQ(here.cpus, usable_cpus());
  EXPECT_GE(here.numa_nodes, 1);
  EXPECT_GT(here.host_bytes, std::int64_t{1} << 28);
  EXPECT_GE(here.host_bytes, usable_memory_bytes());
  EXPECT_TRUE(here.avx512 || !(here.avx512_bf16 || here.avx512_vnni || here.avx512_fp16));
}

TEST(Hardware, IsKnownByName) {
  for (const char* name : {"a100", "l40s", "rtx5090", "h100", "h200", "b200", "gb300", "mi300x",
                           "ascend910b", "xeon-amx", "xeon-avx512", "zen4", "avx2", "arm64",
                           // kept from earlier versions
                           "t4", "rtx4090", "h20", "gh200", "gb200", "b300", "thor", "b580",
                           "epyc-avx512", "x86-avx2"}) {
    const Hardware machine = hardware_named(name);
    EXPECT_EQ(machine.name, name);
    EXPECT_GT(machine.host_bytes, 0) << name;
    EXPECT_EQ(machine.gpus > 0, machine.gpu_bytes > 0) << name;
    EXPECT_EQ(machine.gpus > 0,
              machine.sm.has_value() || machine.amd_gpu || machine.ascend || machine.intel_gpu)
        << name;
    EXPECT_THAT(hardware_names(), Contains(name));
  }
  EXPECT_EQ(hardware_named("gb300").sm, 103);
  EXPECT_FALSE(hardware_named("gb300").x86);
  EXPECT_TRUE(hardware_named("xeon-amx").avx512_fp16);
  EXPECT_FALSE(hardware_named("zen4").amx);
  EXPECT_TRUE(hardware_named("zen4").avx512_bf16);
  EXPECT_FALSE(hardware_named("xeon-avx512").avx512_bf16);
  EXPECT_TRUE(hardware_named("mi300x").amd_gpu);
}

TEST(Hardware, UnknownNamesAreRefusedForTheirFlag) {
  try {
    hardware_named("h1000", "--simulate-hardware");
    ADD_FAILURE() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kInvalidFlagValue);
    EXPECT_EQ(error.field("param"), "--simulate-hardware");
    EXPECT_THAT(error.what(), HasSubstr("h100"));
  }
}

TEST(GpuProbe, AsksTheDriversLibrary) {
  const GpuDriver driver = probe_cuda_driver(QUERN_FAKE_CUDA);
  ASSERT_EQ(driver.gpus.size(), 2u);
  EXPECT_EQ(driver.version, 12080);
  EXPECT_EQ(driver.gpus[0].name, "Fake GPU 70");
  EXPECT_EQ(driver.gpus[0].sm, 103);
  EXPECT_EQ(driver.gpus[0].bytes, std::int64_t{70} << 30);
  EXPECT_EQ(driver.gpus[1].sm, 104);
}

TEST(GpuProbe, IsEmptyWithoutAWorkingLibrary) {
  EXPECT_TRUE(probe_cuda_driver("/nonexistent/libcuda.so.1").gpus.empty());
  EXPECT_TRUE(probe_cuda_driver("libm.so.6").gpus.empty());  // a library without the functions
  EXPECT_TRUE(probe_cuda_driver(QUERN_FAULTY_CUDA).gpus.empty());
}

TEST(GpuProbe, ReadsTheKernelsFiles) {
  const std::filesystem::path folder = std::filesystem::path(testing::TempDir()) / "quern_gpus";
  std::filesystem::create_directories(folder / "0000:01:00.0");
  std::ofstream(folder / "0000:01:00.0/information") << "Model: \t\t NVIDIA H200\nIRQ:   \t\t 0\n";
  const GpuDriver driver = probe_kernel_driver(folder.string());
  ASSERT_EQ(driver.gpus.size(), 1u);
  EXPECT_EQ(driver.gpus[0].name, "NVIDIA H200");
  EXPECT_EQ(driver.gpus[0].sm, 90);
  EXPECT_TRUE(probe_kernel_driver("/nonexistent").gpus.empty());
}

}  // namespace
}  // namespace quern::attention
