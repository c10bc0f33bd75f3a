// What a model is, from config.json or GGUF metadata alone: facts, no weights. Fields that a model
// does not have keep their defaults; a model family checks what it needs (model/families).
#pragma once

#include <algorithm>
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
  // yarn: pairs that turn more often than beta_fast within the original context are kept, those
  // that turn less often than beta_slow are stretched in full; `truncate`: whole pairs as bounds.
  double beta_fast = 32.0, beta_slow = 1.0;
  bool truncate = true;
  double attention_factor = 0;            // of cosines and sines; 0: from factor and mscales
  double mscale = 0, mscale_all_dim = 0;  // 0: not given
};

// What the tokens of one layer attend to.
enum class LayerKind : std::uint8_t {
  kFull,     // everything before them
  kWindow,   // the last `sliding_window` tokens
  kChunked,  // the tokens of their own chunk of `attention_chunk` tokens
  kLinear,   // a state of fixed size; such a layer has no KV cache
  kCross,    // an encoder's output instead of the tokens before them
};

// How the weights are stored where they are not stored in `dtype`.
struct WeightQuantization {
  std::string method;                              // fp8, mxfp4, awq, gptq, …; "": none
  double bits = 0;                                 // of one weight, scales included; 0: not known
  bool only_experts = false;                       // the other weights keep `dtype`
  std::int64_t block_rows = 0, block_columns = 0;  // of weights that share a scale; 0: not told
};

// How a token's experts are picked and weighed (model/layers/moe_router.h).
struct ExpertRouting {
  // softmax (over all experts), sigmoid, or what the file says (the family refuses it)
  std::string scores = "softmax";
  // greedy; group_limited_greedy: from the groups with the best experts; noaux_tc: the same where a
  // stored bias takes part in picking, but not in the weights. Others are refused as above.
  std::string method = "greedy";
  bool normalize = false;          // the picked weights are divided by their sum
  std::int64_t groups = 1;         // of experts, equal in size
  std::int64_t picked_groups = 1;  // of a token
  double scale = 1.0;              // of the weights, at last
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
  std::int64_t sliding_window = 0;   // tokens, the token itself counted; 0: none
  std::int64_t attention_chunk = 0;  // tokens (Llama 4); 0: none
  // One for each layer; empty where all layers are alike: kWindow with a sliding_window, else
  // kFull.
  std::vector<LayerKind> layer_kinds;
  bool dual_chunk_attention = false;  // dual_chunk_attention_config is there (Qwen 2.5 1M)
  double attention_soft_cap = 0;      // 0: none
  bool attention_sinks = false;
  std::int64_t index_topk = 0;  // tokens that a sparse indexer picks (DeepSeek-V3.2); 0: none
  std::int64_t index_heads = 0, index_head_dim = 0;
  std::int64_t nextn_layers = 0;  // multi-token-prediction layers, not among `layers`

  // Mixture of experts.
  std::int64_t experts = 0;  // 0: dense
  std::int64_t experts_per_token = 0;
  std::vector<bool> expert_layers;  // [layers]; the others are dense with `inter`; empty: all are
  std::int64_t dense_inter = 0;     // width of those where it is not `inter`; 0: it is
  std::int64_t moe_inter = 0;       // width of one expert
  std::int64_t shared_inter = 0;    // width of all shared experts together; 0: none
  ExpertRouting routing;
  bool gated_mlp = true;  // three matrices in a feed-forward block, else two

  // Gated delta net and the like; 0 where no layer is kLinear.
  std::int64_t linear_key_heads = 0, linear_value_heads = 0;
  std::int64_t linear_key_head_dim = 0, linear_value_head_dim = 0, linear_conv_width = 0;
  bool attention_output_gate = false;  // the query projection makes a gate as well

  // Encoder-decoder models whose encoder has the decoder's width; 0 elsewhere.
  std::int64_t encoder_layers = 0, encoder_inter = 0;
  bool learned_positions = false;  // a position table of context_length rows

  // Layers with a window that have their own heads (MiMo); 0: as the others.
  std::int64_t window_kv_heads = 0;
  WeightQuantization quantization;
  bool text_only = true;  // false: an image or audio part stands beside these facts

  std::int32_t bos_token_id = -1;
  std::vector<std::int32_t> eos_token_ids;

  std::int64_t moe_layers() const {
    return std::count(expert_layers.begin(), expert_layers.end(), true);
  }
  bool has_experts(std::int64_t layer) const {
    return !expert_layers.empty() && expert_layers[static_cast<std::size_t>(layer)];
  }
  // Keys that a token of the layer sees, itself counted; 0: all before it.
  std::int64_t window_of(std::int64_t layer) const {
    const bool window =
        layer_kinds.empty() || layer_kinds[static_cast<std::size_t>(layer)] == LayerKind::kWindow;
    return window ? sliding_window : 0;
  }
  std::int64_t layers_of(LayerKind kind) const {
    if (!layer_kinds.empty()) return std::count(layer_kinds.begin(), layer_kinds.end(), kind);
    return kind == (sliding_window > 0 ? LayerKind::kWindow : LayerKind::kFull) ? layers : 0;
  }
};

}  // namespace quern
