// The contracts of accelerators' MLA backends on a simulated machine: each under its own page size,
// KV type and phases, with the real dims, against torch_native. Prefill and decode of two backends.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <map>

#include "attention/assemble.h"
#include "attention/backends/torch_native.h"
#include "attention/mla_problem.h"
#include "attention/select.h"
#include "base/errors/attention.h"

namespace quern::attention {
namespace {

ModelConfig deepseek(std::int64_t heads) {
  ModelConfig config;
  config.architecture = "DeepseekV2ForCausalLM";
  config.origin = "/models/deepseek/config.json";
  config.heads = config.kv_heads = heads;
  config.head_dim = 192;
  config.v_head_dim = 128;
  config.kv_lora_rank = 512;
  config.qk_rope_head_dim = 64;
  return config;
}

Question question(const ModelConfig& config, const std::string& hardware,
                  const NeedsOptions& options = {}) {
  Question made;
  made.target = needs_of(config, "/models/m", options);
  made.hardware = hardware_named(hardware);
  made.hardware.simulated = true;
  return made;
}

cache::KvLayout layout_for(const Plan& plan, const Question& asked) {
  Needs needs = asked.target;
  needs.kv_type = plan.kv_type;
  return layout_of(plan, needs);
}

// Decodes and a prompt's end beside a whole prompt, which runs expanded.
void real_dims(MlaProblem& problem, std::int32_t heads) {
  fill_random(problem,
              {.layer = 1,
               .heads = heads,
               .latent_dim = 512,
               .rope_dim = 64,
               .nope_dim = 128,
               .v_head_dim = 128,
               .scale = 0.0721688f},
              {100, 1, 70, 100}, {1, 1, 3, 100});
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected,
                 const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], 3e-2f) << what << " at " << i;
  }
}

// What torch_native makes of the problem over the same type of rows.
const MlaResult& expected_of(const MlaProblem& problem, DType dtype) {
  static std::map<std::pair<std::int32_t, DType>, MlaResult> known;
  const std::pair key(problem.layer.heads, dtype);
  if (!known.contains(key)) {
    ThreadPool pool(2);
    const auto native = make_torch_native(pool);
    known[key] =
        run_mla(*native, problem, {cache::latent_layout(dtype, 16, problem.layer.row_dim())});
  }
  return known.at(key);
}

struct Contract {
  const char *backend, *hardware;
  std::int32_t heads;
  std::int64_t page_size;  // 0: the backend's choice
  KvType kv_type;
  std::int32_t expected_page;
  DType expected_dtype;
};

TEST(MlaContracts, RunUnderTheirOwnRulesAndAgreeWithTorchNative) {
  const Contract contracts[] = {
      {"flashmla", "h100", 16, 0, KvType::kAuto, 64, DType::kBF16},
      {"flashmla", "h100", 16, 64, KvType::kFp8E4M3, 64, DType::kF8E4M3},
      {"cutlass_mla", "b200", 16, 0, KvType::kAuto, 128, DType::kBF16},
      {"trtllm_mla", "b200", 16, 0, KvType::kAuto, 64, DType::kBF16},
      {"trtllm_mla", "b200", 64, 32, KvType::kFp8E4M3, 32, DType::kF8E4M3},
      {"tokenspeed_mla", "b200", 16, 0, KvType::kFp8E4M3, 64, DType::kF8E4M3},
      {"tokenspeed_mla", "b200", 16, 32, KvType::kFp8E4M3, 32, DType::kF8E4M3},
      {"cutedsl_mla", "b200", 16, 0, KvType::kAuto, 64, DType::kBF16},
      {"cutedsl_mla", "b200", 16, 32, KvType::kFp8E4M3, 32, DType::kF8E4M3},
      {"fa3", "h100", 16, 0, KvType::kAuto, 1, DType::kBF16},
      {"flashinfer", "h100", 16, 0, KvType::kAuto, 1, DType::kBF16},
      {"triton", "a100", 16, 0, KvType::kAuto, 1, DType::kBF16},
      {"triton", "a100", 16, 16, KvType::kFp8E4M3, 16, DType::kF8E4M3},
  };
  for (const Contract& contract : contracts) {
    NeedsOptions options;
    options.page_size = contract.page_size;
    options.kv_type = contract.kv_type;
    const Question asked = question(deepseek(contract.heads), contract.hardware, options);
    const Plan plan = choose(asked, {.base = contract.backend});
    const std::string what = fmt::format("{}, page size {}", contract.backend, contract.page_size);
    ASSERT_TRUE(plan.fits()) << what;
    const cache::KvLayout layout = layout_for(plan, asked);
    EXPECT_EQ(layout, cache::latent_layout(contract.expected_dtype, contract.expected_page, 576))
        << what;
    ThreadPool pool(2);
    const auto backend = assemble(plan, layout, pool);
    EXPECT_EQ(backend->info().name, contract.backend);
    MlaProblem problem;
    real_dims(problem, contract.heads);
    const MlaResult& expected = expected_of(problem, contract.expected_dtype);
    const MlaResult result = run_mla(*backend, problem, {layout, 2, 60});
    expect_near(result.out, expected.out, what);
    expect_near(result.lse, expected.lse, what);
  }
}

TEST(MlaContracts, CutedslOnlyDecodesAndTrtllmPrefills) {
  const Question asked = question(deepseek(16), "b200");
  const Plan plan = choose(asked, {.base = "cutedsl_mla"});
  EXPECT_EQ(plan.prefill.row->info.name, "trtllm_mla");
  EXPECT_EQ(plan.decode.row->info.name, "cutedsl_mla");
  EXPECT_THROW(choose(asked, {.prefill = "cutedsl_mla", .decode = "trtllm_mla"}), Error);
}

TEST(MlaContracts, HybridsOfPrefillAndDecodeAgreeWithTorchNative) {
  struct Hybrid {
    const char *prefill, *decode, *hardware;
    bool simulated;
    std::int32_t page;
  };
  for (const Hybrid& hybrid : {Hybrid{"fa3", "flashmla", "h100", true, 64},
                               Hybrid{"trtllm_mla", "cutlass_mla", "b200", true, 0},
                               Hybrid{"trtllm_mla", "cutedsl_mla", "b200", true, 64},
                               Hybrid{"torch_native", "cpu_flash", "x86-avx2", false, 64},
                               Hybrid{"cpu_flash", "torch_native", "x86-avx2", false, 64}}) {
    Question asked = question(deepseek(16), hybrid.hardware);
    asked.hardware.simulated = hybrid.simulated;
    const Asked names = {.prefill = hybrid.prefill, .decode = hybrid.decode};
    if (hybrid.page == 0) {  // 32 and 64 against 128
      try {
        choose(asked, names);
        ADD_FAILURE() << hybrid.decode;
      } catch (const Error& error) {
        EXPECT_EQ(error.id(), errors::kPageSizeConflict);
      }
      continue;
    }
    const Plan plan = choose(asked, names);
    const cache::KvLayout layout = layout_for(plan, asked);
    EXPECT_EQ(layout.page_size, hybrid.page) << hybrid.decode;
    ThreadPool pool(2);
    const auto backend = assemble(plan, layout, pool);
    MlaProblem problem;
    real_dims(problem, 16);
    const std::string what = fmt::format("{} and {}", hybrid.prefill, hybrid.decode);
    expect_near(run_mla(*backend, problem, {layout, 2, 60}).out,
                expected_of(problem, layout.dtype).out, what);
  }
}

// The models of the tests have latents of 64 + 16.
TEST(MlaContracts, OtherHeadDimsAreRefusedInWords) {
  ModelConfig tiny = deepseek(4);
  tiny.kv_lora_rank = 64;
  tiny.qk_rope_head_dim = 16;
  struct Refused {
    const char *backend, *hardware, *offered;
  };
  for (const Refused& row :
       {Refused{"flashmla", "h100", "576/512, 512/512"}, Refused{"cutlass_mla", "b200", "576/512"},
        Refused{"trtllm_mla", "b200", "576/512, 320/256, 512/512"},
        Refused{"cutedsl_mla", "b200", "576/512"}, Refused{"flashinfer", "h100", "576/512"}}) {
    try {
      choose(question(tiny, row.hardware), {.base = row.backend});
      ADD_FAILURE() << row.backend;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kHeadDimUnsupported) << row.backend;
      EXPECT_NE(error.message().find("QK 80 and V 64"), std::string::npos) << error.message();
      EXPECT_NE(error.message().find(row.offered), std::string::npos) << error.message();
    }
  }
}

TEST(MlaContracts, HeadCountsThatAContractDoesNotTakeAreRefused) {
  const auto id = [](const char* backend, std::int64_t heads) {
    try {
      choose(question(deepseek(heads), "b200"), {.base = backend});
    } catch (const Error& error) {
      return error.id();
    }
    return ErrorId{};
  };
  EXPECT_EQ(id("trtllm_mla", 96), errors::kHeadsUnsupported);
  EXPECT_EQ(id("cutlass_mla", 192), errors::kHeadsUnsupported);
  EXPECT_EQ(id("cutlass_mla", 128), ErrorId{});
}

TEST(MlaContracts, WhatABackendKeepsNoKernelsForIsToldByName) {
  NeedsOptions options;
  options.kv_type = KvType::kFp4;
  const Question asked = question(deepseek(16), "b200", options);
  try {
    choose(asked, {.base = "trtllm_mla"});
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kBackendNotInBuild);
    EXPECT_NE(error.message().find("fp4_mx_block16 KV cache"), std::string::npos)
        << error.message();
  }
}

}  // namespace
}  // namespace quern::attention
