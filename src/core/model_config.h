// What a model is, from config.json or GGUF metadata alone: facts, no weights. Fields that a model
// does not have keep their defaults; a model family checks what it needs (model/families).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace quern {

struct RopeScaling {
  // none, linear, dynamic, llama3, yarn, longrope, or what the file says (the family refuses it)
  std::string type = "none";
  double factor = 1.0;
  double low_freq_factor = 1.0;
  double high_freq_factor = 4.0;
  double original_context_length = 0;
};

struct ModelConfig {
  std::string architecture;  // "LlamaForCausalLM"; for GGUF derived from general.architecture
  std::string model_type;    // "llama"
  std::string name;          // general.name or the folder's name
  std::string origin;        // the file these facts came from, for messages

  std::int64_t hidden = 0;
  std::int64_t layers = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_dim = 0;    // of queries and keys
  std::int64_t v_head_dim = 0;  // of values; equal to head_dim in most models
  std::int64_t inter = 0;
  std::int64_t vocab = 0;
  std::int64_t context_length = 0;

  double rms_norm_eps = 1e-5;
  double rope_theta = 10000.0;
  std::int64_t rope_dim = 0;      // leading dims of a head that are rotated
  bool rope_interleaved = false;  // pairs (2i, 2i+1), as GGUF stores llama; else (i, i + dim/2)
  RopeScaling rope_scaling;
  std::string activation = "silu";
  bool tied_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  DType dtype = DType::kBF16;  // of the stored weights, for Hugging Face folders

  // Multi-head latent attention; 0 where the model has none.
  std::int64_t kv_lora_rank = 0;
  std::int64_t q_lora_rank = 0;
  std::int64_t qk_nope_head_dim = 0;
  std::int64_t qk_rope_head_dim = 0;

  bool encoder_decoder = false;
  std::int64_t sliding_window = 0;  // tokens, the token itself counted; 0: none
  double attention_soft_cap = 0;    // 0: none
  bool attention_sinks = false;
  std::int64_t experts = 0;  // 0: dense
  std::int64_t experts_per_token = 0;
  std::int64_t nextn_layers = 0;  // multi-token-prediction layers

  std::int32_t bos_token_id = -1;
  std::vector<std::int32_t> eos_token_ids;
};

}  // namespace quern
