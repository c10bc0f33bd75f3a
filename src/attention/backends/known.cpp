#include "attention/backends/known.h"

#include "attention/validate.h"
#include "base/errors/attention.h"

namespace quern::attention {
namespace {

using enum KvType;
constexpr Support kYes = Support::kYes, kNo = Support::kNo, kUnknown = Support::kUnknown;
using Speculation = Speculative;

constexpr KvType kBf16Only[] = {kBF16};
constexpr KvType kHalf[] = {kBF16, kF16};
constexpr KvType kHalfFp8[] = {kBF16, kF16, kFp8E4M3};
constexpr KvType kBf16Fp8[] = {kBF16, kFp8E4M3};
constexpr KvType kFp8Bf16[] = {kFp8E4M3, kBF16};
constexpr KvType kFp8Only[] = {kFp8E4M3};
constexpr KvType kFlashinferTypes[] = {kBF16, kF16, kFp8E4M3, kFp8E5M2, kNvFp4, kFp4};
constexpr KvType kTritonTypes[] = {kBF16, kF16, kFp8E4M3, kFp8E5M2, kFp4, kNvFp4};
constexpr KvType kTritonMlaTypes[] = {kBF16, kF16, kFp8E4M3, kFp8E5M2};
constexpr KvType kFa4Types[] = {kBF16, kF16, kMxFp8};
constexpr KvType kTrtllmMlaTypes[] = {kBF16, kFp8E4M3, kFp4};
constexpr KvType kTrtllmMhaTypes[] = {kBF16, kFp8E4M3, kNvFp4};

constexpr std::int32_t kPage1[] = {1}, kPage64[] = {64}, kPage128[] = {128}, kPage256[] = {256};
constexpr std::int32_t kPage64Or32[] = {64, 32};
constexpr std::int32_t kTrtllmMhaPages[] = {64, 16, 32, 128}, kTrtllmMhaSmallPages[] = {64, 16, 32};
constexpr std::int32_t kXpuPages[] = {128, 64}, kXpuMlaPages[] = {128, 64, 16, 32};

constexpr std::int32_t kFlashinferDims[] = {64, 128, 256, 512};
constexpr std::int32_t kDim128[] = {128};
constexpr HeadDims kLatent512[] = {{576, 512}};
constexpr HeadDims kFlashMlaDims[] = {{576, 512}, {512, 512}};
constexpr HeadDims kTrtllmMlaDims[] = {{576, 512}, {320, 256}, {512, 512}};

constexpr SmRange kSm75Up[] = {{75, 999}};
constexpr SmRange kSm80To90[] = {{80, 90}}, kSm90[] = {{90, 90}}, kSm90Up[] = {{90, 999}};
constexpr SmRange kSm100[] = {{100, 100}}, kSm10x[] = {{100, 109}}, kSm10xTo12x[] = {{100, 129}};
constexpr SmRange kFa4Sm[] = {{90, 90}, {100, 103}, {110, 110}, {120, 121}};
constexpr SmRange kTrtllmMhaSm[] = {{90, 90}, {100, 103}, {120, 121}};

constexpr std::string_view kDsaModels[] = {"DeepseekV32ForCausalLM", "GlmMoeDsaForCausalLM"};
constexpr std::string_view kDsv4Models[] = {"DeepseekV4ForCausalLM", "DeepseekV4ForCausalLMNextN"};
constexpr std::string_view kMiniCpmModels[] = {"MiniCPMForCausalLM", "MiniCPM3ForCausalLM"};

using Outcome = std::optional<Caveat>;

bool sm_between(const Hardware& hardware, int low, int high) {
  return hardware.sm && *hardware.sm >= low && *hardware.sm <= high;
}

// On SM100 and SM110 pages of 128 tokens, but trees of drafts want single ones.
std::span<const std::int32_t> fa4_pages(const Needs& needs, const Hardware& hardware) {
  if (needs.mla) return kPage1;
  if (!sm_between(hardware, 100, 110)) return {};
  if (needs.speculative_topk > 1) return kPage1;
  return kPage128;
}

// On SM100 pages of 128 tokens need grouped queries and equal dims.
std::span<const std::int32_t> trtllm_mha_pages(const Needs& needs, const Hardware& hardware) {
  const bool dynamic = needs.heads > needs.kv_heads && needs.head_dim == needs.v_head_dim;
  if (!dynamic && sm_between(hardware, 100, 109)) return kTrtllmMhaSmallPages;
  return kTrtllmMhaPages;
}

// Fp8 keys only on Hopper, and values of another width than the keys only there.
Outcome fa3_caveat(const Needs& needs, const Hardware& hardware) {
  if (needs.mla || !hardware.sm) return std::nullopt;
  if (needs.kv_type == kFp8E4M3 && *hardware.sm < 90) {
    return Caveat{Check::kKvType, errors::kKvTypeUnsupported, "bf16, float16 below SM90"};
  }
  const auto qk = needs.head_dim, v = needs.v_head_dim;
  if (qk == v) return std::nullopt;
  const bool wide = qk >= 128 && qk <= 192 && v <= 128, narrow = qk <= 64 && v <= 512;
  if (*hardware.sm >= 90 && (wide || narrow)) return std::nullopt;
  return Caveat{Check::kHeadDim, errors::kHeadDimUnsupported,
                "QK = V, and on SM90 QK 128–192 with V ≤ 128 or QK ≤ 64 with V ≤ 512"};
}

Outcome fa4_caveat(const Needs& needs, const Hardware& hardware) {
  if (needs.mla || !hardware.sm) return std::nullopt;
  const bool blackwell = sm_between(hardware, 100, 110);
  const auto qk = needs.head_dim, v = needs.v_head_dim;
  if (needs.kv_type == kMxFp8 && *hardware.sm < 100) {
    return Caveat{Check::kKvType, errors::kKvTypeUnsupported, "bf16, float16 below SM100"};
  }
  const bool blackwell_dims =
      (qk >= 8 && qk <= 128 && v <= 128) || (qk == 192 && v == 128) || (qk == 256 && v == 256);
  if (blackwell && !blackwell_dims) {
    return Caveat{Check::kHeadDim, errors::kHeadDimUnsupported,
                  "8–128, 192 with V 128, 256 on SM100 and SM110"};
  }
  if (blackwell && qk == 256 && needs.sinks)
    return Caveat{Check::kSinks, errors::kSinksUnsupported, "no sinks"};
  if (blackwell && qk == 256 && needs.soft_cap) {
    return Caveat{Check::kSoftCap, errors::kSoftCapUnsupported, "no cap"};
  }
  return std::nullopt;
}

Outcome at_most_128_heads(const Needs& needs, const Hardware&) {
  if (needs.heads <= 128) return std::nullopt;
  return Caveat{Check::kHeadDim, errors::kHeadsUnsupported, "at most 128 query heads"};
}

Outcome trtllm_mla_caveat(const Needs& needs, const Hardware& hardware) {
  if (needs.heads > 64 && needs.heads < 128) {
    return Caveat{Check::kHeadDim, errors::kHeadsUnsupported, "not 65 to 127 query heads"};
  }
  if (sm_between(hardware, 120, 129)) {
    if (!needs.speculative_algorithm.empty()) {
      return Caveat{Check::kSpeculative, errors::kSpeculativeUnsupported, "none on SM12x"};
    }
    if (needs.head_dim > 0 && needs.head_dim != 576) {
      return Caveat{Check::kHeadDim, errors::kHeadDimUnsupported, "QK 576 with V 512 on SM12x"};
    }
  }
  return std::nullopt;
}

// SGLang asks for fp8_e4m3 by name: its `auto` is the model's own type.
Outcome tokenspeed_caveat(const Needs& needs, const Hardware&) {
  if (!needs.speculative_algorithm.empty() && needs.draft_tokens > 8) {
    return Caveat{Check::kSpeculative, errors::kTokenspeedVerifyTokens, "at most 8 draft tokens"};
  }
  if (needs.kv_type != kAuto) return std::nullopt;
  return Caveat{Check::kKvType, errors::kTokenspeedMlaKvType, "fp8_e4m3"};
}

Outcome trtllm_mha_caveat(const Needs& needs, const Hardware& hardware) {
  if (sm_between(hardware, 120, 129) && needs.kv_type == kFp8E4M3) {
    return Caveat{Check::kKvType, errors::kTrtllmMhaSm120Fp8, "bf16, nvfp4"};
  }
  if (sm_between(hardware, 90, 90) && needs.kv_type == kNvFp4) {
    return Caveat{Check::kKvType, errors::kKvTypeUnsupported, "bf16, fp8_e4m3 on SM90"};
  }
  const bool xqa = sm_between(hardware, 90, 90) || sm_between(hardware, 120, 129);
  if (xqa && needs.head_dim % 16 != 0) {
    return Caveat{Check::kHeadDim, errors::kHeadDimUnsupported,
                  "multiples of 16 on SM90 and SM120"};
  }
  if (sm_between(hardware, 90, 90) && needs.head_dim > 256) {
    return Caveat{Check::kHeadDim, errors::kHeadDimUnsupported, "at most 256 on SM90"};
  }
  return std::nullopt;
}

Outcome hpc_ops_caveat(const Needs& needs, const Hardware&) {
  const auto kv = needs.kv_heads;
  if (kv <= 0 || needs.heads % kv != 0 || (needs.heads / kv != 4 && needs.heads / kv != 8)) {
    return Caveat{Check::kHeadDim, errors::kHpcOpsHeads,
                  "head_dim 128, 4 or 8 query heads to a KV head"};
  }
  const bool fused = (needs.heads == 8 && kv == 1) || (needs.heads == 64 && kv == 8);
  if (needs.kv_type == kFp8E4M3 && !fused) {
    return Caveat{Check::kKvType, errors::kHpcOpsFp8Heads,
                  "8 over 1 or 64 over 8 heads with fp8_e4m3"};
  }
  return std::nullopt;
}

Outcome aiter_caveat(const Needs& needs, const Hardware&) {
  const auto heads = needs.heads;
  const bool served = heads == 4 || heads == 8 || (heads % 16 == 0 && heads >= 16 && heads <= 128);
  if (!needs.mla || served) return std::nullopt;
  return Caveat{Check::kHeadDim, errors::kAiterMlaHeads, "4, 8 or multiples of 16 up to 128 heads"};
}

constexpr BackendInfo kFlashinfer = {.name = "flashinfer",
                                     .mha = true,
                                     .mla = true,
                                     .cross_attention = kYes,
                                     .speculative = Speculation::kTree,
                                     .speculative_mla = Speculation::kOneBranch,
                                     .page_sizes_mla = kPage1,
                                     .ngram_tree_pages = true,
                                     .deterministic = true,
                                     .kv_types = kFlashinferTypes,
                                     .kv_types_mla = kHalf,
                                     .head_dims = kFlashinferDims,
                                     .head_dims_mla = kLatent512,
                                     .window = kYes,
                                     .sinks = kNo,
                                     .soft_cap = kYes,
                                     .plain_mla = true,
                                     .device = Device::kCuda,
                                     .sm = kSm75Up,
                                     .machine = "an NVIDIA GPU of SM75 or later",
                                     .portable = true};

constexpr BackendInfo kFa3 = {.name = "fa3",
                              .mha = true,
                              .mla = true,
                              .cross_attention = kYes,
                              .speculative = Speculation::kTree,
                              .speculative_mla = Speculation::kTree,
                              .tree_page_one_mla = true,
                              .tree_page_one_window = true,
                              .deterministic = true,
                              .deterministic_mla = true,
                              .kv_types = kHalfFp8,
                              .kv_types_mla = kHalf,
                              .max_head_dim = 256,
                              .head_dim_multiple = 8,
                              .window = kYes,
                              .sinks = kYes,
                              .soft_cap = kYes,
                              .device = Device::kCuda,
                              .sm = kSm80To90,
                              .sm_mla = kSm90,
                              .machine = "an NVIDIA GPU of SM80 to SM90 (for MLA SM90)",
                              .caveat = fa3_caveat,
                              .portable = true,
                              .note = "fp8_e4m3 and V unlike QK on SM90 alone"};

constexpr BackendInfo kFa4 = {
    .name = "fa4",
    .mha = true,
    .mla = true,
    .cross_attention = kYes,
    .speculative = Speculation::kTree,
    .speculative_mla = Speculation::kUnknown,
    .page_sizes_mla = kPage1,
    .pages = fa4_pages,
    .tree_page_one = true,
    .tree_page_one_mla = true,
    .deterministic = true,
    .deterministic_mla = true,
    .kv_types = kFa4Types,
    .kv_types_mla = kHalf,
    .fp4_prefill = true,
    .max_head_dim = 256,
    .head_dim_multiple = 8,
    .window = kYes,
    .sinks = kYes,
    .soft_cap = kYes,
    .plain_mla = true,
    .device = Device::kCuda,
    .sm = kFa4Sm,
    .machine = "an NVIDIA GPU of SM90, 100, 110 or 120",
    .caveat = fa4_caveat,
    .portable = true,
    .note = "on SM100 and SM110 pages of 128 tokens, or of 1 for trees of drafts"};

constexpr BackendInfo kTriton = {.name = "triton",
                                 .mha = true,
                                 .mla = true,
                                 .cross_attention = kNo,
                                 .speculative = Speculation::kTree,
                                 .speculative_mla = Speculation::kTree,
                                 .tree_page_one_mla = true,
                                 .deterministic = true,
                                 .deterministic_mla = true,
                                 .kv_types = kTritonTypes,
                                 .kv_types_mla = kTritonMlaTypes,
                                 .window = kYes,
                                 .sinks = kYes,
                                 .soft_cap = kYes,
                                 .device = Device::kAnyGpu,
                                 .machine = "a GPU of NVIDIA, AMD or Intel",
                                 .portable = true};

constexpr BackendInfo kFlexAttention = {.name = "flex_attention",
                                        .mha = true,
                                        .kv_types = kBf16Only,
                                        .window = kNo,
                                        .sinks = kNo,
                                        .soft_cap = kNo,
                                        .device = Device::kCuda,
                                        .machine = "an NVIDIA GPU"};

constexpr BackendInfo kFlashmla = {.name = "flashmla",
                                   .mla = true,
                                   .speculative_mla = Speculation::kOneBranch,
                                   .page_sizes = kPage64,
                                   .kv_types = kHalfFp8,
                                   .head_dims_mla = kFlashMlaDims,
                                   .window = kNo,
                                   .sinks = kNo,
                                   .soft_cap = kNo,
                                   .device = Device::kCuda,
                                   .sm = kSm90,
                                   .machine = "an NVIDIA Hopper GPU (SM90)",
                                   .portable = true};

constexpr BackendInfo kCutlassMla = {.name = "cutlass_mla",
                                     .mla = true,
                                     .page_sizes = kPage128,
                                     .kv_types = kHalf,
                                     .head_dims_mla = kLatent512,
                                     .window = kNo,
                                     .sinks = kNo,
                                     .soft_cap = kNo,
                                     .device = Device::kCuda,
                                     .sm = kSm100,
                                     .machine = "an NVIDIA Blackwell GPU (SM100)",
                                     .caveat = at_most_128_heads,
                                     .portable = true,
                                     .note = "at most 128 query heads"};

constexpr BackendInfo kTrtllmMla = {
    .name = "trtllm_mla",
    .mla = true,
    .speculative_mla = Speculation::kOneBranch,
    .page_sizes = kPage64Or32,
    .kv_types = kTrtllmMlaTypes,
    .head_dims_mla = kTrtllmMlaDims,
    .window = kNo,
    .sinks = kNo,
    .soft_cap = kNo,
    .device = Device::kCuda,
    .sm = kSm10xTo12x,
    .machine = "an NVIDIA Blackwell GPU (SM100 or SM12x)",
    .caveat = trtllm_mla_caveat,
    .portable = true,
    .note = "not 65 to 127 query heads; no speculative decoding on SM12x"};

constexpr BackendInfo kTokenspeedMla = {
    .name = "tokenspeed_mla",
    .mla = true,
    .speculative_mla = Speculation::kOneBranch,
    .page_sizes = kPage64Or32,
    .kv_types = kFp8Only,
    .window = kNo,
    .sinks = kNo,
    .soft_cap = kNo,
    .device = Device::kCuda,
    .sm = kSm10xTo12x,
    .machine = "an NVIDIA Blackwell GPU (SM100 or SM12x)",
    .caveat = tokenspeed_caveat,
    .portable = true,
    .note = "wants fp8_e4m3 by name; verifies at most 8 tokens"};

constexpr BackendInfo kCutedslMla = {.name = "cutedsl_mla",
                                     .mla = true,
                                     .mla_decode_only = true,
                                     .mla_prefill_partner = "trtllm_mla",
                                     .speculative_mla = Speculation::kOneBranch,
                                     .page_sizes = kPage64Or32,
                                     .kv_types = kBf16Fp8,
                                     .head_dims_mla = kLatent512,
                                     .window = kNo,
                                     .sinks = kNo,
                                     .soft_cap = kNo,
                                     .device = Device::kCuda,
                                     .sm = kSm10x,
                                     .machine = "an NVIDIA Blackwell GPU (SM100)",
                                     .caveat = at_most_128_heads,
                                     .portable = true,
                                     .note = "decodes only; prefill is trtllm_mla's"};

constexpr BackendInfo kTrtllmMha = {
    .name = "trtllm_mha",
    .mha = true,
    .speculative = Speculation::kOneBranch,
    .page_sizes = kTrtllmMhaPages,
    .pages = trtllm_mha_pages,
    .kv_types = kTrtllmMhaTypes,
    .max_head_dim = 512,
    .equal_head_dims = true,
    .window = kYes,
    .sinks = kYes,
    .soft_cap = kNo,
    .device = Device::kCuda,
    .sm = kTrtllmMhaSm,
    .machine = "an NVIDIA GPU of SM90, 100 or 120",
    .caveat = trtllm_mha_caveat,
    .portable = true,
    .note = "on SM100 pages of 128 for grouped queries with QK = V alone"};

constexpr BackendInfo kHpcOps = {
    .name = "hpc_ops",
    .mha = true,
    .page_sizes = kPage64,
    .kv_types = kBf16Fp8,
    .head_dims = kDim128,
    .window = kNo,
    .sinks = kNo,
    .soft_cap = kNo,
    .device = Device::kCuda,
    .sm = kSm90,
    .machine = "an NVIDIA Hopper GPU (SM90)",
    .caveat = hpc_ops_caveat,
    .portable = true,
    .note = "4 or 8 query heads to a KV head; on Ascend the name is ascend"};

constexpr BackendInfo kDsa = {.name = "dsa",
                              .mla = true,
                              .architectures = kDsaModels,
                              .own_models = "DeepSeek-V3.2 and GLM-5 (DeepSeek sparse attention)",
                              .speculative_mla = Speculation::kOneBranch,
                              .page_sizes = kPage64,
                              .kv_types = kBf16Fp8,
                              .head_dims_mla = kLatent512,
                              .window = kNo,
                              .device = Device::kCuda,
                              .sm = kSm90Up,
                              .machine = "an NVIDIA GPU of SM90 or later"};

constexpr BackendInfo kDsv4 = {.name = "dsv4",
                               .mha = true,
                               .architectures = kDsv4Models,
                               .own_models = "DeepSeek-V4",
                               .speculative = Speculation::kOneBranch,
                               .page_sizes = kPage256,
                               .kv_types = kFp8Bf16,
                               .window = kYes,
                               .sinks = kYes,
                               .soft_cap = kUnknown,
                               .device = Device::kCuda,
                               .sm = kSm90Up,
                               .machine = "an NVIDIA GPU of SM90 or later"};

constexpr BackendInfo kDualChunk = {.name = "dual_chunk_flash_attn",
                                    .mha = true,
                                    .own_models = "those with dual_chunk_attention_config",
                                    .dual_chunk = true,
                                    .kv_types = kBf16Only,
                                    .window = kNo,
                                    .sinks = kNo,
                                    .soft_cap = kNo,
                                    .device = Device::kCuda,
                                    .machine = "an NVIDIA GPU"};

constexpr BackendInfo kMiniCpmFlashattn = {.name = "minicpm_flashattn",
                                           .mha = true,
                                           .architectures = kMiniCpmModels,
                                           .own_models = "MiniCPM with sparse attention",
                                           .cross_attention = kUnknown,
                                           .speculative = Speculation::kUnknown,
                                           .device = Device::kCuda,
                                           .machine = "an NVIDIA GPU"};

constexpr BackendInfo kMiniCpmFlashinfer = {.name = "minicpm_flashinfer",
                                            .mha = true,
                                            .architectures = kMiniCpmModels,
                                            .own_models = "MiniCPM with sparse attention",
                                            .cross_attention = kUnknown,
                                            .speculative = Speculation::kUnknown,
                                            .device = Device::kCuda,
                                            .machine = "an NVIDIA GPU"};

constexpr BackendInfo kQsa = {.name = "qsa",
                              .mha = true,
                              .own_models = "those with its sparse attention",
                              .cross_attention = kUnknown,
                              .speculative = Speculation::kUnknown,
                              .device = Device::kCuda,
                              .machine = "an NVIDIA GPU"};

constexpr BackendInfo kAiter = {.name = "aiter",
                                .mha = true,
                                .mla = true,
                                .speculative = Speculation::kOneBranch,
                                .speculative_mla = Speculation::kOneBranch,
                                .kv_types = kHalfFp8,
                                .max_head_dim = 256,
                                .window = kYes,
                                .sinks = kYes,
                                .soft_cap = kYes,
                                .device = Device::kAmd,
                                .machine = "an AMD GPU",
                                .caveat = aiter_caveat,
                                .note = "MLA with 4, 8 or multiples of 16 up to 128 heads"};

constexpr BackendInfo kWave = {.name = "wave",
                               .mha = true,
                               .kv_types = kBf16Only,
                               .window = kNo,
                               .sinks = kNo,
                               .soft_cap = kYes,
                               .device = Device::kAmd,
                               .machine = "an AMD GPU"};

constexpr BackendInfo kAscend = {.name = "ascend",
                                 .mha = true,
                                 .mla = true,
                                 .cross_attention = kYes,
                                 .cross_with_window = true,
                                 .speculative = Speculation::kOneBranch,
                                 .page_sizes = kPage128,
                                 .deterministic = true,
                                 .deterministic_mla = true,
                                 .kv_types = kBf16Only,
                                 .window = kYes,
                                 .sinks = kYes,
                                 .soft_cap = kYes,
                                 .device = Device::kAscend,
                                 .machine = "an Ascend NPU"};

constexpr BackendInfo kIntelXpu = {
    .name = "intel_xpu",
    .mha = true,
    .mla = true,
    .mla_decode_only = true,
    .cross_attention = kYes,
    .page_sizes = kXpuPages,
    .page_sizes_mla = kXpuMlaPages,
    .deterministic = true,
    .kv_types = kBf16Only,
    .window = kYes,
    .sinks = kYes,
    .soft_cap = kYes,
    .device = Device::kIntelGpu,
    .machine = "an Intel GPU with XMX",
    .note = "also decodes MLA models where another backend does the prefill"};

constexpr BackendInfo kMlu = {.name = "mlu",
                              .mha = true,
                              .mla = true,
                              .cross_attention = kUnknown,
                              .speculative = Speculation::kUnknown,
                              .speculative_mla = Speculation::kUnknown,
                              .device = Device::kOther,
                              .machine = "a Cambricon MLU"};

constexpr BackendInfo kGpuBackends[] = {kFa3,
                                        kTrtllmMha,
                                        kFlashinfer,
                                        kFa4,
                                        kTrtllmMla,
                                        kTriton,
                                        kFlashmla,
                                        kCutlassMla,
                                        kTokenspeedMla,
                                        kCutedslMla,
                                        kHpcOps,
                                        kDsa,
                                        kDsv4,
                                        kFlexAttention,
                                        kDualChunk,
                                        kMiniCpmFlashattn,
                                        kMiniCpmFlashinfer,
                                        kQsa,
                                        kAiter,
                                        kWave,
                                        kAscend,
                                        kIntelXpu,
                                        kMlu};

}  // namespace

std::span<const BackendInfo> known_gpu_backends() { return kGpuBackends; }

}  // namespace quern::attention
