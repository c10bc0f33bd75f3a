#include "attention/validate.h"

#include <gtest/gtest.h>

#include "attention/registry.h"
#include "base/errors/attention.h"

namespace quern::attention {
namespace {

ModelConfig llama() {
  ModelConfig config;
  config.architecture = "LlamaForCausalLM";
  config.origin = "/models/llama/config.json";
  config.layers = 32;
  config.heads = 32;
  config.kv_heads = 8;
  config.head_dim = config.v_head_dim = 128;
  return config;
}

ModelConfig deepseek_v3() {
  ModelConfig config;
  config.architecture = "DeepseekV3ForCausalLM";
  config.origin = "/models/deepseek/config.json";
  config.heads = config.kv_heads = 128;
  config.head_dim = 192;
  config.v_head_dim = 128;
  config.kv_lora_rank = 512;
  config.qk_rope_head_dim = 64;
  return config;
}

ModelConfig bart() {
  ModelConfig config = llama();
  config.architecture = "BartForConditionalGeneration";
  config.encoder_decoder = true;
  return config;
}

std::vector<Refusal> refusals(std::string_view name, const ModelConfig& config,
                              const std::string& hardware, const NeedsOptions& options = {},
                              Phase phase = Phase::kBoth) {
  return validate(find_backend(name).info, needs_of(config, "m", options), hardware_named(hardware),
                  phase);
}

// The first refusal is this entry, word for word.
void expect_first(std::string_view name, const ModelConfig& config, const std::string& hardware,
                  const NeedsOptions& options, ErrorId id, const std::string& message) {
  const auto found = refusals(name, config, hardware, options);
  ASSERT_FALSE(found.empty()) << name << ": " << message;
  EXPECT_EQ(error_entry(found.front().id).symbol, std::string(error_entry(id).symbol)) << name;
  EXPECT_EQ(found.front().message, message);
}

// Some refusal is this entry, word for word.
void expect_some(std::string_view name, const ModelConfig& config, const std::string& hardware,
                 const NeedsOptions& options, ErrorId id, const std::string& message) {
  for (const Refusal& refusal : refusals(name, config, hardware, options)) {
    if (refusal.id != id) continue;
    EXPECT_EQ(refusal.message, message);
    return;
  }
  ADD_FAILURE() << name << " does not say: " << message;
}

NeedsOptions speculative(const std::string& algorithm, int topk = 0, int page_size = 0) {
  NeedsOptions options;
  options.speculative_algorithm = algorithm;
  options.speculative_topk = topk;
  options.page_size = page_size;
  return options;
}

NeedsOptions kv(KvType type) {
  NeedsOptions options;
  options.kv_type = type;
  return options;
}

NeedsOptions page(int size) {
  NeedsOptions options;
  options.page_size = size;
  return options;
}

TEST(Validate, KeepsThePublishedIdsOfOldLinks) {
  EXPECT_STREQ(error_entry(errors::kTrtllmMhaMlaModel).id, "0ae807a1c0d1702a");
  EXPECT_STREQ(error_entry(errors::kHpcOpsMlaModel).id, "e45e9af63e91c033");
}

TEST(Validate, RefusesMlaModelsOnMhaBackends) {
  expect_first("trtllm_mha", deepseek_v3(), "xeon-amx", {}, errors::kTrtllmMhaMlaModel,
               "trtllm_mha backend can only be used with non-MLA models.");
  expect_first("hpc_ops", deepseek_v3(), "h100", {}, errors::kHpcOpsMlaModel,
               "hpc_ops backend can only be used with non-MLA models.");
  expect_first("flex_attention", deepseek_v3(), "h100", {}, errors::kNonMlaBackendOnly,
               "flex_attention backend can only be used with non-MLA models.");
  const auto xpu = refusals("intel_xpu", deepseek_v3(), "b580");
  EXPECT_EQ(xpu.front().id, errors::kIntelXpuMlaPrefill);
}

TEST(Validate, RefusesMhaModelsOnMlaBackends) {
  const std::pair<std::string, ErrorId> rows[] = {
      {"trtllm_mla", errors::kTrtllmMlaNonMlaModel},
      {"cutedsl_mla", errors::kCutedslMlaNonMlaModel},
      {"tokenspeed_mla", errors::kTokenspeedMlaNonMlaModel},
      {"flashmla", errors::kFlashmlaNonMlaModel},
      {"cutlass_mla", errors::kCutlassMlaNonMlaModel}};
  for (const auto& [name, id] : rows) {
    for (const std::string hardware : {"arm64", "h100", "b200"}) {
      expect_first(name, llama(), hardware, {}, id,
                   name + " backend can only be used with MLA models.");
    }
  }
  expect_some("dsa", llama(), "h100", {}, errors::kMlaBackendOnly,
              "dsa backend can only be used with MLA models.");
}

TEST(Validate, RefusesOtherModelsOnBackendsOfTheirOwnModels) {
  expect_first("dsa", llama(), "h100", {}, errors::kModelNotServed,
               "dsa backend serves no model but its own: DeepSeek-V3.2 and GLM-5 (DeepSeek sparse "
               "attention).");
  ModelConfig v32 = deepseek_v3();
  v32.architecture = "DeepseekV32ForCausalLM";
  EXPECT_EQ(refusals("dsa", v32, "h100").front().id, errors::kBackendNotInBuild);
}

TEST(Validate, RefusesCrossAttention) {
  expect_first("hpc_ops", bart(), "h100", {}, errors::kHpcOpsCrossAttention,
               "Cross attention is not supported in the hpc_ops attention backend.");
  expect_first("triton", bart(), "h100", {}, errors::kTritonCrossAttention,
               "Cross attention is not supported in the triton attention backend. Please use "
               "`--attention-backend flashinfer`.");
  expect_first("flex_attention", bart(), "h100", {}, errors::kFlexCrossAttention,
               "TorchFlexAttnBackend does not support non-causal attention for now.");
  expect_first("trtllm_mha", bart(), "b200", {}, errors::kCrossAttentionUnsupported,
               "Cross attention is not supported in the trtllm_mha attention backend.");
  ModelConfig windowed = bart();
  windowed.sliding_window = 16;
  for (const char* name : {"fa3", "flashinfer", "fa4", "intel_xpu"}) {
    expect_first(name, windowed, "h100", {}, errors::kWindowWithCrossAttention,
                 "Sliding window and cross attention are not supported together");
  }
}

TEST(Validate, RefusesSpeculativeDecoding) {
  expect_first("hpc_ops", llama(), "h100", speculative("NGRAM"), errors::kHpcOpsSpeculative,
               "hpc_ops backend does not support speculative decoding for now.");
  expect_first("flex_attention", llama(), "h100", speculative("EAGLE"), errors::kFlexSpeculative,
               "Speculative decoding is currently not supported with Flex Attention backend");
  expect_first("wave", llama(), "mi300x", speculative("EAGLE3"), errors::kEagleDecodeUnsupported,
               "EAGLE is not supported in decode attention backend wave");
  expect_first("wave", llama(), "mi300x", speculative("NGRAM"), errors::kSpeculativeUnsupported,
               "wave backend does not support speculative decoding (NGRAM).");
}

TEST(Validate, RefusesTreesOfDrafts) {
  expect_first("trtllm_mha", llama(), "b200", speculative("EAGLE", 2), errors::kTrtllmMhaTopk,
               "trtllm_mha backend only supports topk = 1 for speculative decoding.");
  expect_first("flashinfer", deepseek_v3(), "h100", speculative("EAGLE", 2),
               errors::kFlashinferMlaTopk,
               "Currently Flashinfer MLA only supports topk=1 for speculative decoding");
  expect_first("flashmla", deepseek_v3(), "h100", speculative("EAGLE", 2), errors::kFlashMlaTopk,
               "Currently FlashMLA only supports topk=1 for speculative decoding");
  expect_first("aiter", llama(), "mi300x", speculative("EAGLE", 4), errors::kAiterTopk,
               "AiterAttnBackend SPEC_V2 path currently supports topk <= 1 only. Got topk=4.");
  expect_first("trtllm_mla", deepseek_v3(), "b200", speculative("EAGLE", 2),
               errors::kTopkUnsupported,
               "trtllm_mla backend supports speculative decoding with topk = 1 only, not 2.");
  expect_first("fa4", llama(), "h100", speculative("EAGLE", 2, 16), errors::kTopkPageSize,
               "speculative_eagle_topk > 1 with page_size > 1 is only supported on ('flashinfer', "
               "'fa3', 'triton'); got attention_backend='fa4'. Use page_size == 1 or one of those "
               "backends.");
  expect_first("fa3", deepseek_v3(), "h100", speculative("EAGLE", 2, 16), errors::kTreePageSize,
               "fa3 backend supports topk > 1 for this model only with page_size 1, not 16.");
  EXPECT_EQ(refusals("fa3", llama(), "h100", speculative("EAGLE", 2, 16)).front().id,
            errors::kBackendNotInBuild);
}

TEST(Validate, RefusesPageSizes) {
  expect_first("hpc_ops", llama(), "h100", page(32), errors::kHpcOpsPageSize,
               "The hpc_ops attention backend requires --page-size 64, got 32.");
  expect_some("tokenspeed_mla", deepseek_v3(), "b200", page(16), errors::kTokenspeedMlaPageSize,
              "tokenspeed_mla backend requires page_size in {32, 64}, got page_size=16.");
  expect_first("cpu_flash", llama(), "arm64", page(8), errors::kPageSizeUnsupported,
               "cpu_flash backend does not support page_size 8; it supports 16, 32, 64, 128.");
  expect_first("flashinfer", deepseek_v3(), "h100", page(16), errors::kPageSizeUnsupported,
               "flashinfer backend does not support page_size 16; it supports 1.");
  ModelConfig mha = llama();
  mha.kv_heads = mha.heads;
  EXPECT_EQ(refusals("trtllm_mha", mha, "b200", page(128)).front().id,
            errors::kTrtllmMhaPageSize128);
  EXPECT_EQ(refusals("trtllm_mha", llama(), "b200", page(128)).front().id,
            errors::kBackendNotInBuild);
  EXPECT_EQ(refusals("trtllm_mha", mha, "h100", page(128)).front().id, errors::kBackendNotInBuild);
}

TEST(Validate, RefusesKvTypes) {
  expect_first("hpc_ops", llama(), "h100", kv(KvType::kFp8E5M2), errors::kHpcOpsKvType,
               "The hpc_ops attention backend only supports bf16 or fp8_e4m3 KV cache, got "
               "fp8_e5m2.");
  expect_first("tokenspeed_mla", deepseek_v3(), "b200", {}, errors::kTokenspeedMlaKvType,
               "tokenspeed_mla backend requires kv-cache-dtype=fp8_e4m3, got auto.");
  expect_first("tokenspeed_mla", deepseek_v3(), "b200", kv(KvType::kBF16),
               errors::kTokenspeedMlaKvType,
               "tokenspeed_mla backend requires kv-cache-dtype=fp8_e4m3, got bf16.");
  expect_first("trtllm_mla", deepseek_v3(), "b200", kv(KvType::kFp8E5M2), errors::kTrtllmMlaKvType,
               "TensorRT-LLM MLA backend only supports kv-cache-dtype of fp8_e4m3, fp4_e2m1, bf16, "
               "or auto.");
  expect_first("cutedsl_mla", deepseek_v3(), "b200", kv(KvType::kNvFp4), errors::kCutedslMlaKvType,
               "CuteDSL MLA backend only supports kv-cache-dtype of fp8_e4m3, bf16, or auto.");
  expect_first("cpu_flash", llama(), "arm64", kv(KvType::kFp8E5M2), errors::kKvTypeUnsupported,
               "cpu_flash backend does not support kv-cache-dtype fp8_e5m2; it supports bf16, "
               "float32, fp8_e4m3, int8.");
  expect_first("cpu_flash", deepseek_v3(), "arm64", kv(KvType::kInt8), errors::kKvTypeUnsupported,
               "cpu_flash backend does not support kv-cache-dtype int8; it supports bf16, float32, "
               "fp8_e4m3.");
  expect_first(
      "trtllm_mha", llama(), "rtx5090", kv(KvType::kFp8E4M3), errors::kTrtllmMhaSm120Fp8,
      "TRTLLM FMHAv2 prefill on SM120 does not support fp8_e4m3 KV cache or skip-softmax.");
  ModelConfig v32 = deepseek_v3(), v4 = llama();
  v32.architecture = "DeepseekV32ForCausalLM";
  v4.architecture = "DeepseekV4ForCausalLM";
  expect_first("dsa", v32, "h100", kv(KvType::kNvFp4), errors::kDsaKvType,
               "DeepSeek DSA only supports bf16/bfloat16 or fp8_e4m3 kv_cache_dtype");
  expect_first("dsv4", v4, "h100", kv(KvType::kNvFp4), errors::kDsv4KvType,
               "nvfp4 is not supported for DeepseekV4ForCausalLM");
  EXPECT_EQ(refusals("fa3", llama(), "a100", kv(KvType::kFp8E4M3)).front().id,
            errors::kKvTypeUnsupported);
  EXPECT_EQ(
      refusals("hpc_ops", llama(), "h100", kv(KvType::kFp8E4M3)).front().message,
      "The hpc_ops FP8 KV cache path requires per-rank (num_q_heads, num_kv_heads) in ((8, 1), "
      "(64, 8)) (the fused RoPE+quant kernel is specialized per shape), got (32, 8). Adjust "
      "--tp accordingly or use --kv-cache-dtype bfloat16.");
}

TEST(Validate, RefusesHeadDimsAndHeads) {
  ModelConfig odd = llama();
  odd.head_dim = odd.v_head_dim = 80;
  expect_first("hpc_ops", odd, "h100", {}, errors::kHpcOpsHeads,
               "The hpc_ops attention backend requires head_dim == 128 and num_q_heads // "
               "num_kv_heads in (4, 8), got head_dim=80, num_q_heads=32, num_kv_heads=8.");
  expect_first("flashinfer", odd, "h100", {}, errors::kHeadDimUnsupported,
               "flashinfer backend does not serve head dims of QK 80 and V 80; it serves 64, 128, "
               "256, 512.");
  EXPECT_EQ(refusals("cpu_flash", odd, "arm64").size(), 0u);
  ModelConfig wide = llama();
  wide.head_dim = 192;
  expect_first(
      "trtllm_mha", wide, "b200", {}, errors::kHeadDimUnsupported,
      "trtllm_mha backend does not serve head dims of QK 192 and V 128; it serves QK = V.");
  EXPECT_EQ(refusals("fa3", wide, "a100").front().id, errors::kHeadDimUnsupported);
  EXPECT_EQ(refusals("fa3", wide, "h100").front().id, errors::kBackendNotInBuild);
  ModelConfig mla = deepseek_v3();
  mla.heads = 20;
  expect_first("aiter", mla, "mi300x", {}, errors::kAiterMlaHeads,
               "Aiter MLA supports num_head of 4, 8, or multiples of 16 in [16, 128]. Got 20.");
  mla.heads = 256;
  EXPECT_EQ(refusals("cutlass_mla", mla, "b200").front().id, errors::kHeadsUnsupported);
}

TEST(Validate, RefusesWindowsSinksAndCaps) {
  ModelConfig config = llama();
  config.sliding_window = 4096;
  expect_first("hpc_ops", config, "h100", {}, errors::kHpcOpsWindow,
               "The hpc_ops attention backend does not support sliding window.");
  EXPECT_EQ(refusals("flex_attention", config, "h100").front().id, errors::kWindowUnsupported);
  EXPECT_EQ(refusals("cpu_flash", config, "arm64").size(), 0u);
  config = llama();
  config.attention_soft_cap = 50;
  expect_first("hpc_ops", config, "h100", {}, errors::kHpcOpsSoftCap,
               "The hpc_ops attention backend does not support logit cap.");
  EXPECT_EQ(refusals("trtllm_mha", config, "b200").front().id, errors::kSoftCapUnsupported);
  config = llama();
  config.attention_sinks = true;
  EXPECT_EQ(refusals("flashinfer", config, "h100").front().id, errors::kSinksUnsupported);
}

TEST(Validate, RefusesOtherMachines) {
  expect_first("fa3", llama(), "b200", {}, errors::kFa3Sm,
               "FlashAttention v3 Backend requires SM>=80 and SM<=90. Please use "
               "`--attention-backend flashinfer`.");
  EXPECT_EQ(refusals("fa3", deepseek_v3(), "a100").front().id, errors::kFa3Sm);
  expect_first("trtllm_mla", deepseek_v3(), "h100", {}, errors::kTrtllmMlaSm,
               "TRTLLM MLA backend is only supported on Blackwell GPUs (SM100/SM12x). Please use a "
               "different backend.");
  expect_first("tokenspeed_mla", deepseek_v3(), "h100", kv(KvType::kFp8E4M3),
               errors::kTokenspeedMlaSm,
               "tokenspeed_mla backend is only supported on Blackwell GPUs (SM100/SM12x).");
  expect_first("cutedsl_mla", deepseek_v3(), "rtx5090", {}, errors::kCutedslMlaSm,
               "CuteDSL MLA backend is only supported on Blackwell GPUs (SM100). Please use a "
               "different backend.");
  expect_first("trtllm_mha", llama(), "a100", {}, errors::kTrtllmMhaPrefillSm,
               "TRTLLM MHA backend for prefill requires Hopper (SM90), Blackwell (SM100), or SM120 "
               "GPUs. Please use a different prefill backend.");
  expect_first("hpc_ops", llama(), "a100", {}, errors::kHpcOpsSm,
               "The hpc_ops attention backend requires an SM90 (Hopper) GPU (the HPC-Ops kernels "
               "ship sm90a only), got sm80.");
  expect_first("intel_amx", llama(), "x86-avx2", {}, errors::kHardwareMissing,
               "intel_amx backend needs an x86 processor with AMX tiles; found: x86 processor with "
               "AVX2, no GPU.");
  EXPECT_TRUE(refusals("intel_amx", llama(), "xeon-amx").empty());
  EXPECT_EQ(refusals("intel_amx", llama(), "arm64").front().id, errors::kHardwareMissing);
  EXPECT_EQ(refusals("intel_amx", llama(), "xeon-amx", kv(KvType::kF16)).front().id,
            errors::kKvTypeUnsupported);
}

TEST(Validate, TellsWhatThisBuildLacksLast) {
  expect_first("fa3", llama(), "h100", {}, errors::kBackendNotInBuild,
               "fa3 backend is known, but this build has no kernels for it.");
  expect_first("torch_native", bart(), "arm64", {}, errors::kBackendNotInBuild,
               "torch_native backend is known, but this build has no cross-attention kernels for "
               "it.");
  BackendInfo without_mla = find_backend("cpu_flash").info;
  without_mla.mla_in_build = false;
  EXPECT_EQ(validate(without_mla, needs_of(deepseek_v3(), "m", {}), hardware_named("arm64"))
                .front()
                .message,
            "cpu_flash backend is known, but this build has no MLA kernels for it.");
  for (const char* name : {"cpu_flash", "torch_native"}) {
    EXPECT_TRUE(refusals(name, deepseek_v3(), "arm64").empty()) << name;
  }
  EXPECT_TRUE(refusals("intel_amx", deepseek_v3(), "xeon-amx").empty());
  expect_first("cpu_flash", llama(), "arm64", speculative("NGRAM"), errors::kBackendNotInBuild,
               "cpu_flash backend is known, but this build has no speculative decoding for it.");
}

TEST(Validate, KnowsTheOrderOfItsChecks) {
  NeedsOptions everything = speculative("EAGLE", 2, 7);
  everything.kv_type = KvType::kInt8;
  const auto found = refusals("hpc_ops", bart(), "arm64", everything);
  std::vector<std::string> symbols;
  for (const Refusal& refusal : found) symbols.emplace_back(error_entry(refusal.id).symbol);
  EXPECT_EQ(symbols,
            (std::vector<std::string>{"HpcOpsCrossAttention", "HpcOpsSpeculative", "HpcOpsPageSize",
                                      "HpcOpsKvType", "HpcOpsSm", "BackendNotInBuild"}));
}

TEST(Hardware, KnowsNamedMachinesAndThisOne) {
  for (const std::string_view name : hardware_names()) {
    EXPECT_EQ(hardware_named(name).name, name);
  }
  EXPECT_EQ(hardware_named("h100").sm, 90);
  EXPECT_TRUE(hardware_named("xeon-amx").amx);
  EXPECT_THROW(hardware_named("h1000"), Error);
  EXPECT_FALSE(probe_hardware().description.empty());
}

}  // namespace
}  // namespace quern::attention
