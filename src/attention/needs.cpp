#include "attention/needs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/errors/attention.h"
#include "base/errors/base.h"
#include "base/nearest.h"

namespace quern::attention {
namespace {

struct KvWord {
  std::string_view word;
  KvType type;
};

// The first word of a type is its name; the others are accepted too.
constexpr std::array kKvWords = {
    KvWord{"auto", KvType::kAuto},        KvWord{"bf16", KvType::kBF16},
    KvWord{"bfloat16", KvType::kBF16},    KvWord{"float32", KvType::kF32},
    KvWord{"fp32", KvType::kF32},         KvWord{"float16", KvType::kF16},
    KvWord{"fp16", KvType::kF16},         KvWord{"fp8_e4m3", KvType::kFp8E4M3},
    KvWord{"fp8_e5m2", KvType::kFp8E5M2}, KvWord{"int8", KvType::kInt8},
    KvWord{"nvfp4", KvType::kNvFp4},      KvWord{"fp4_mx_block16", KvType::kFp4},
    KvWord{"fp4_e2m1", KvType::kFp4},     KvWord{"mxfp8", KvType::kMxFp8},
};

// Architectures that SGLang runs as MLA whatever their fields say.
constexpr std::array<std::string_view, 19> kMlaArchitectures = {
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
    "DeepseekV32ForCausalLM",
    "DeepseekV3ForCausalLMNextN",
    "Glm4MoeLiteForCausalLM",
    "Glm4MoeLiteForCausalLMNextN",
    "GlmMoeDsaForCausalLM",
    "LongcatFlashForCausalLM",
    "LongcatFlashForCausalLMNextN",
    "DotsVLMForCausalLM",
    "MistralLarge3ForCausalLM",
    "MistralLarge3ForCausalLMEagle",
    "KimiK25ForConditionalGeneration",
    "Eagle3DeepseekV2ForCausalLM",
    "MiniCPM3ForCausalLM",
    "KimiVLForConditionalGeneration",
    "KimiLinearForCausalLM",
    "BailingMoeV2_5ForCausalLM",
    "SarvamMLAForCausalLM",
};
// Those that are MLA where their latent rank is set.
constexpr std::array<std::string_view, 4> kMaybeMlaArchitectures = {
    "DeepseekVLV2ForCausalLM",
    "DeepseekVL2ForCausalLM",
    "PixtralForConditionalGeneration",
    "BailingMoeForCausalLMNextN",
};

template <typename List>
bool contains(const List& list, std::string_view name) {
  return std::find(list.begin(), list.end(), name) != list.end();
}

// DeepSeek-V4 compresses its keys in another way and is served as MHA.
bool compressed_mha(std::string_view architecture) {
  return architecture.starts_with("DeepseekV4");
}

void decide_mla(const ModelConfig& config, Needs* needs) {
  const std::string_view arch = config.architecture;
  const std::string file = std::filesystem::path(config.origin).filename().string();
  const std::string place = file.empty() ? "the model's config" : file;
  const bool by_name = contains(kMlaArchitectures, arch);
  const bool known = by_name || contains(kMaybeMlaArchitectures, arch);
  if (compressed_mha(arch)) {
    needs->mla = false;
    needs->mla_evidence = fmt::format("{} compresses its keys but is served as MHA", arch);
  } else if (config.kv_lora_rank > 0) {
    needs->mla = true;
    needs->mla_evidence = fmt::format("kv_lora_rank {} in {}", config.kv_lora_rank, place);
    if (!known) {
      needs->mla_evidence +=
          fmt::format("; SGLang does not list {} as MLA and would take it for MHA", arch);
    }
  } else if (by_name) {
    needs->mla = true;
    needs->mla_evidence =
        fmt::format("{} is an MLA architecture, though {} has no kv_lora_rank", arch, place);
  } else {
    needs->mla_evidence = fmt::format("no kv_lora_rank in {}", place);
  }
}

// SGLang's algorithms; steps, branches and draft tokens where the flags leave them open.
struct Algorithm {
  std::string_view name;
  std::int64_t steps, topk, draft_tokens;
};
constexpr std::array kAlgorithms = {
    Algorithm{"EAGLE", 3, 1, 4},      Algorithm{"EAGLE3", 3, 1, 4},  Algorithm{"NEXTN", 3, 1, 4},
    Algorithm{"STANDALONE", 3, 1, 4}, Algorithm{"NGRAM", 1, 10, 12}, Algorithm{"DFLASH", 1, 1, 16},
    Algorithm{"DSPARK", 1, 1, 16},
};
// EAGLE's own for these two families.
constexpr Algorithm kEagleOfLlama = {"EAGLE", 5, 4, 8};

// Fills in what the flags leave open, before any backend is picked.
void resolve_speculation(const NeedsOptions& options, Needs* needs) {
  if (options.speculative_algorithm.empty()) return;
  std::string word = options.speculative_algorithm;
  for (char& c : word) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  std::vector<std::string> names;
  const Algorithm* found = nullptr;
  for (const Algorithm& algorithm : kAlgorithms) {
    names.emplace_back(algorithm.name);
    if (algorithm.name == word) found = &algorithm;
  }
  if (!found) {
    const std::string near = nearest(word, names);
    throw Error(errors::kUnknownSpeculativeAlgorithm,
                {{"algorithm", options.speculative_algorithm},
                 {"param", "--speculative-algorithm"},
                 {"hint", (near.empty() ? "" : "did you mean " + near + "?\n") +
                              fmt::format("known: {}", fmt::join(names, ", "))}});
  }
  const bool llama =
      needs->architecture == "LlamaForCausalLM" || needs->architecture == "Grok1ForCausalLM";
  if (word.starts_with("EAGLE") && llama) found = &kEagleOfLlama;
  const auto either = [](std::int64_t asked, std::int64_t otherwise) {
    return asked > 0 ? asked : otherwise;
  };
  needs->speculative_algorithm = word == "NEXTN" ? "EAGLE" : word;
  needs->speculative_topk = either(options.speculative_topk, found->topk);
  needs->draft_tokens = either(options.draft_tokens, found->draft_tokens);
  needs->speculative_steps = either(options.speculative_steps, found->steps);
  // One branch drafts a token a step; the last sampled one is verified beside them.
  const bool stepwise = word.starts_with("EAGLE") || word == "NEXTN" || word == "STANDALONE";
  if (stepwise && needs->speculative_topk == 1) needs->draft_tokens = needs->speculative_steps + 1;
}

// Heads of one of `tp` ranks; KV heads fewer than ranks are kept by several.
void share_heads(std::int64_t tp, Needs* needs) {
  if (tp <= 1) return;
  if (needs->heads % tp != 0) {
    throw Error(errors::kTensorParallelHeads,
                {{"tp", tp}, {"heads", needs->heads}, {"model", needs->model}, {"param", "--tp"}});
  }
  needs->heads /= tp;
  needs->kv_heads = std::max<std::int64_t>(1, needs->kv_heads / tp);
}

}  // namespace

std::string_view name_of(KvType type) {
  for (const KvWord& row : kKvWords) {
    if (row.type == type) return row.word;
  }
  return "unknown";
}

KvType parse_kv_type(std::string_view word) {
  std::string allowed;
  for (const KvWord& row : kKvWords) {
    if (row.word == word) return row.type;
    allowed += (allowed.empty() ? "" : ", ") + std::string(row.word);
  }
  throw Error(errors::kInvalidFlagValue, {{"flag", "--kv-cache-dtype"},
                                          {"value", word},
                                          {"allowed", allowed},
                                          {"param", "--kv-cache-dtype"}});
}

Needs needs_of(const ModelConfig& config, std::string model, const NeedsOptions& options) {
  Needs needs;
  needs.model = std::move(model);
  needs.architecture = config.architecture;
  decide_mla(config, &needs);
  needs.encoder_decoder = config.encoder_decoder;
  needs.heads = config.heads;
  needs.kv_heads = config.kv_heads;
  if (needs.mla && config.kv_lora_rank > 0) {
    needs.head_dim = config.kv_lora_rank + config.qk_rope_head_dim;
    needs.v_head_dim = config.kv_lora_rank;
  } else {
    needs.head_dim = config.head_dim;
    needs.v_head_dim = config.v_head_dim > 0 ? config.v_head_dim : config.head_dim;
  }
  // A chunk hides what lies before it, as a window does.
  needs.window =
      config.layers_of(LayerKind::kWindow) > 0 || config.layers_of(LayerKind::kChunked) > 0;
  needs.hybrid_gdn = config.layers_of(LayerKind::kLinear) > 0 && config.linear_key_heads > 0;
  needs.dual_chunk = config.dual_chunk_attention;
  needs.soft_cap = config.attention_soft_cap > 0;
  needs.sinks = config.attention_sinks;
  resolve_speculation(options, &needs);
  needs.page_size = options.page_size;
  needs.kv_type = options.kv_type;
  needs.deterministic = options.deterministic;
  share_heads(options.tp, &needs);
  return needs;
}

}  // namespace quern::attention
