// What a model and the flags ask of an attention backend: facts, never model names. Made from
// ModelConfig alone, before any weight is read.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/model_config.h"

namespace quern::attention {

enum class KvType { kAuto, kF32, kBF16, kF16, kFp8E4M3, kFp8E5M2, kInt8, kNvFp4, kFp4, kMxFp8 };
std::string_view name_of(KvType type);  // SGLang's words: auto, bf16, fp8_e4m3, …
// Throws: kInvalidFlagValue for words that --kv-cache-dtype does not know.
KvType parse_kv_type(std::string_view word);

struct Needs {
  // For messages: which model, and which field said that it is (not) MLA.
  std::string model;         // path or name
  std::string architecture;  // DeepseekV3ForCausalLM
  std::string mla_evidence;  // "kv_lora_rank 512 in config.json"

  bool mla = false;
  bool encoder_decoder = false;
  std::int64_t heads = 0, kv_heads = 0;
  std::int64_t head_dim = 0, v_head_dim = 0;  // of MHA; for MLA the latent: kv_rank + rope, kv_rank
  bool window = false, soft_cap = false, sinks = false;
  bool hybrid_gdn = false;       // gated delta net layers beside those of attention (Qwen3-Next)
  bool dual_chunk = false;       // dual_chunk_attention_config
  std::string families_instead;  // not empty: this build lacks the model's family and has these

  // From the flags; speculative values are resolved, so no default is open.
  std::string speculative_algorithm;  // "" is none
  std::int64_t speculative_steps = 0, speculative_topk = 0, draft_tokens = 0;
  std::int64_t page_size = 0;  // 0: the backend's choice
  KvType kv_type = KvType::kAuto;
  bool deterministic = false;
  bool f32 = false;  // --dtype float32: no backend that rounds to bf16 is chosen unasked
};

// What the command line asks, beside the model. 0 and "" are unset.
struct NeedsOptions {
  std::string speculative_algorithm;
  std::int64_t speculative_steps = 0, speculative_topk = 0, draft_tokens = 0;
  std::int64_t page_size = 0;
  KvType kv_type = KvType::kAuto;
  bool deterministic = false;
  std::int64_t tp = 1;  // ranks that share the heads
};

// `model` is the path or name that messages show. Head counts are those of one rank.
// Throws: kUnknownSpeculativeAlgorithm, kTensorParallelHeads.
Needs needs_of(const ModelConfig& config, std::string model, const NeedsOptions& options);

}  // namespace quern::attention
