#include "engine/memory_estimate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string_view>

namespace quern::engine {
namespace {

// Model types whose layers are counted as they are. Others may have parts that are not counted.
constexpr std::string_view kKnownTypes[] = {
    "bart",
    "cohere",
    "deepseek_v2",
    "deepseek_v3",
    "deepseek_v32",
    "falcon",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3_text",
    "glm4_moe_lite",
    "glm_moe_dsa",
    "gpt2",
    "gpt_oss",
    "kimi_k2",
    "llama",
    "llama4",
    "llama4_text",
    "minicpm3",
    "mistral",
    "mixtral",
    "mllama",
    "mllama_text_model",
    "olmo2",
    "phi3",
    "qwen2",
    "qwen3",
    "qwen3_moe",
    "qwen3_next",
    "t5",
    "whisper",
};

// Everything here is counted in double: an intermediate product of a hostile config's largest
// values does not fit 64 bits, and no result needs more than its 53.
double wide(std::int64_t value) { return static_cast<double>(value); }

std::int64_t narrow(double value) {
  return static_cast<std::int64_t>(std::min(std::round(value), 9e18));
}

bool is_mla(const ModelConfig& config) { return config.kv_lora_rank > 0; }

double latent_attention(const ModelConfig& c) {
  const double hidden = wide(c.hidden), heads = wide(c.heads);
  const double query_dims = heads * wide(c.qk_nope_head_dim + c.qk_rope_head_dim);
  const double query =
      c.q_lora_rank > 0 ? wide(c.q_lora_rank) * (hidden + query_dims) : hidden * query_dims;
  const double key_value = hidden * wide(c.kv_lora_rank + c.qk_rope_head_dim) +
                           wide(c.kv_lora_rank) * heads * wide(c.qk_nope_head_dim + c.v_head_dim);
  const double output = heads * wide(c.v_head_dim) * hidden;
  double indexer = 0;
  if (c.index_topk > 0) {
    indexer = wide(c.q_lora_rank) * wide(c.index_heads) * wide(c.index_head_dim) +
              hidden * wide(c.index_head_dim + c.index_heads);
  }
  return query + key_value + output + indexer;
}

double plain_attention(const ModelConfig& c, std::int64_t kv_heads) {
  const double hidden = wide(c.hidden), heads = wide(c.heads);
  const double query = hidden * heads * wide(c.head_dim) * (c.attention_output_gate ? 2 : 1);
  const double key_value = hidden * wide(kv_heads) * wide(c.head_dim + c.v_head_dim);
  return query + key_value + heads * wide(c.v_head_dim) * hidden;
}

double linear_attention(const ModelConfig& c) {
  const double hidden = wide(c.hidden);
  const double key = wide(c.linear_key_heads) * wide(c.linear_key_head_dim);
  const double value = wide(c.linear_value_heads) * wide(c.linear_value_head_dim);
  const double in = hidden * (2 * key + 2 * value + 2 * wide(c.linear_value_heads));
  return in + (2 * key + value) * wide(c.linear_conv_width) + value * hidden;
}

double attention_of_all_layers(const ModelConfig& c) {
  const double full = is_mla(c) ? latent_attention(c) : plain_attention(c, c.kv_heads);
  const double window =
      c.window_kv_heads > 0 && !is_mla(c) ? plain_attention(c, c.window_kv_heads) : full;
  const double windows = wide(c.layers_of(LayerKind::kWindow));
  const double linear = wide(c.layers_of(LayerKind::kLinear));
  return windows * window + linear * linear_attention(c) +
         (wide(c.layers) - windows - linear) * full;
}

double feed_forward(const ModelConfig& c, std::int64_t inter) {
  return (c.gated_mlp ? 3.0 : 2.0) * wide(c.hidden) * wide(inter);
}

std::int64_t dense_width(const ModelConfig& c) {
  const std::int64_t inter = c.dense_inter > 0 ? c.dense_inter : c.inter;
  return inter > 0 ? inter : 4 * c.hidden;
}

// A layer with `count` experts at work, the router and the shared ones included.
double expert_layer(const ModelConfig& c, std::int64_t count) {
  return wide(count) * feed_forward(c, c.moe_inter) + wide(c.hidden) * wide(c.experts) +
         feed_forward(c, c.shared_inter);
}

double encoder(const ModelConfig& c) {
  if (c.encoder_layers == 0) return 0;
  const double attention = plain_attention(c, c.kv_heads);
  // The decoder's layers attend to the encoder's output with weights of their own.
  return wide(c.encoder_layers) *
             (attention + feed_forward(c, c.encoder_inter > 0 ? c.encoder_inter : c.inter)) +
         wide(c.layers) * attention;
}

double draft_layers(const ModelConfig& c) {
  if (c.nextn_layers == 0) return 0;
  const double attention = is_mla(c) ? latent_attention(c) : plain_attention(c, c.kv_heads);
  const double block = c.experts > 0 ? expert_layer(c, c.experts) : feed_forward(c, dense_width(c));
  // A projection of two hidden rows to one, and an embedding and a head that are stored again.
  return wide(c.nextn_layers) * (attention + block + 2 * wide(c.hidden) * wide(c.hidden) +
                                 2 * wide(c.vocab) * wide(c.hidden));
}

double bytes_of_kv(attention::KvType type) {
  using attention::KvType;
  switch (type) {
    case KvType::kF32: return 4;
    case KvType::kAuto:
    case KvType::kBF16:
    case KvType::kF16: return 2;
    case KvType::kFp8E4M3:
    case KvType::kFp8E5M2:
    case KvType::kInt8: return 1;
    case KvType::kMxFp8: return 1 + 1.0 / 32;  // an 8-bit scale for 32 values
    case KvType::kNvFp4:
    case KvType::kFp4: return 0.5 + 1.0 / 16;  // an 8-bit scale for 16 values
  }
  return 2;
}

std::int64_t heads_of_rank(std::int64_t heads, std::int64_t tp) {
  return std::max<std::int64_t>(1, (heads + tp - 1) / tp);
}

// quern's own kernels multiply no FP8: such weights become bf16 when they are packed.
bool widened(const ModelConfig& config, const attention::Hardware& hardware) {
  return hardware.gpus == 0 && config.quantization.method == "fp8";
}

std::string weight_type(const ModelConfig& config) {
  const std::string dtype(name_of(config.dtype));
  const WeightQuantization& stored = config.quantization;
  if (stored.method.empty()) return dtype;
  if (stored.bits == 0) return fmt::format("{}, counted as {}", stored.method, dtype);
  return stored.only_experts ? fmt::format("{} experts, {} else", stored.method, dtype)
                             : stored.method;
}

}  // namespace

Parameters count_parameters(const ModelConfig& c) {
  Parameters counted;
  const double embedding = wide(c.vocab) * wide(c.hidden) * (c.tied_embeddings ? 1 : 2) +
                           (c.learned_positions ? wide(c.context_length) * wide(c.hidden) : 0);
  const double moe_layers = wide(c.moe_layers());
  const double rest = embedding + attention_of_all_layers(c) + encoder(c) +
                      (wide(c.layers) - moe_layers) * feed_forward(c, dense_width(c));
  counted.total = narrow(rest + moe_layers * expert_layer(c, c.experts));
  counted.active = narrow(rest + moe_layers * expert_layer(c, c.experts_per_token));
  counted.draft = narrow(draft_layers(c));
  counted.known_class = std::find(std::begin(kKnownTypes), std::end(kKnownTypes), c.model_type) !=
                        std::end(kKnownTypes);
  return counted;
}

std::int64_t weight_bytes(const ModelConfig& c, const Parameters& parameters) {
  const double plain = wide(row_bytes(c.dtype, 1));
  const WeightQuantization& stored = c.quantization;
  if (stored.bits == 0) return narrow(wide(parameters.total) * plain);
  const double experts = wide(c.moe_layers()) * wide(c.experts) * feed_forward(c, c.moe_inter);
  const double embedding = wide(c.vocab) * wide(c.hidden) * (c.tied_embeddings ? 1 : 2);
  const double quantized = stored.only_experts ? experts : wide(parameters.total) - embedding;
  return narrow(quantized * stored.bits / 8 + (wide(parameters.total) - quantized) * plain);
}

std::int64_t kv_bytes_per_token(const ModelConfig& c, attention::KvType type, std::int64_t tp,
                                bool expanded) {
  if (is_mla(c) && !expanded) {
    return narrow(wide(c.layers) * wide(c.kv_lora_rank + c.qk_rope_head_dim) * bytes_of_kv(type));
  }
  const double row = wide(c.head_dim + c.v_head_dim) * bytes_of_kv(type);
  const double windows = wide(c.layers_of(LayerKind::kWindow));
  const double without = wide(c.layers_of(LayerKind::kLinear) + c.layers_of(LayerKind::kCross));
  const double window_heads =
      wide(heads_of_rank(c.window_kv_heads > 0 ? c.window_kv_heads : c.kv_heads, tp));
  const double rest = wide(c.layers) - windows - without;
  return narrow(row * (windows * window_heads + rest * wide(heads_of_rank(c.kv_heads, tp))));
}

std::int64_t state_bytes_per_request(const ModelConfig& c, std::int64_t tp) {
  const double values = wide(heads_of_rank(c.linear_value_heads, tp));
  const double keys = wide(heads_of_rank(c.linear_key_heads, tp));
  const double state = values * wide(c.linear_key_head_dim) * wide(c.linear_value_head_dim) * 4;
  const double kept = std::max(0.0, wide(c.linear_conv_width) - 1);
  const double conv =
      kept * 2 * (2 * keys * wide(c.linear_key_head_dim) + values * wide(c.linear_value_head_dim));
  return narrow(wide(c.layers_of(LayerKind::kLinear)) * (state + conv));
}

MemoryEstimate estimate_memory(const ModelConfig& config, const attention::Hardware& hardware,
                               attention::KvType type, std::int64_t tp, std::int64_t context,
                               std::int64_t stored, bool mapped) {
  MemoryEstimate made;
  made.parameters = count_parameters(config);
  made.stored_weights = stored > 0;
  made.weight_bytes = stored > 0 ? stored : weight_bytes(config, made.parameters);
  made.weight_type = weight_type(config);
  made.mapped_weights = mapped && hardware.gpus == 0;
  if (widened(config, hardware) && !made.mapped_weights) {
    made.stored_weights = false;
    made.weight_bytes = narrow(wide(made.parameters.total) * wide(row_bytes(config.dtype, 1)));
    made.weight_type = fmt::format("fp8, as {} in memory", name_of(config.dtype));
  }
  made.kv_type = type == attention::KvType::kAuto ? "bf16" : attention::name_of(type);
  made.tp = std::max<std::int64_t>(1, tp);
  made.kv_bytes_per_token = kv_bytes_per_token(config, type, made.tp);
  if (is_mla(config)) {
    made.kv_bytes_per_token_expanded = kv_bytes_per_token(config, type, made.tp, true);
  }
  made.state_bytes_per_request = state_bytes_per_request(config, made.tp);
  made.context = context > 0 ? context : config.context_length;
  made.device = hardware.gpus > 0 ? hardware.gpu_name : "main memory";
  made.device_bytes = hardware.gpus > 0 ? hardware.gpu_bytes : hardware.host_bytes;
  if (made.device_bytes <= 0) return made;

  const double usable = wide(made.device_bytes) * kUsableShare;
  const auto resident = [&](std::int64_t ranks) {
    return resident_bytes(wide(made.weight_bytes) / wide(ranks), usable, made.mapped_weights);
  };
  made.free_bytes = narrow(usable - resident(made.tp));
  for (std::int64_t ranks = 1; ranks <= 1024 && made.least_tp == 0; ranks *= 2) {
    if (resident(ranks) < usable) made.least_tp = ranks;
  }
  if (made.free_bytes <= 0) return made;
  if (made.kv_bytes_per_token > 0) made.tokens = made.free_bytes / made.kv_bytes_per_token;
  const double request =
      wide(made.context) * wide(made.kv_bytes_per_token) + wide(made.state_bytes_per_request);
  if (request > 0) made.requests = narrow(std::floor(wide(made.free_bytes) / request));
  return made;
}

}  // namespace quern::engine
