#include "checkpoint/config_layers.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "checkpoint/limits.h"

namespace quern::checkpoint {
namespace {

using nlohmann::json;

constexpr double kMaxScale = 1e6;

bool is_one_of(std::string_view type, std::initializer_list<std::string_view> types) {
  return std::ranges::find(types, type) != types.end();
}

LayerKind kind_of_word(std::string_view word) {
  if (word == "sliding_attention") return LayerKind::kWindow;
  if (word == "chunked_attention") return LayerKind::kChunked;
  if (is_one_of(word, {"linear_attention", "mamba", "mamba2", "conv", "recurrent"})) {
    return LayerKind::kLinear;
  }
  return LayerKind::kFull;
}

// layer_types: one word for each layer. Longer lists count draft layers too.
bool read_layer_types(const ConfigFields& fields, ModelConfig& config) {
  const json* types = fields.find({"layer_types"});
  if (types == nullptr) return false;
  const auto known = [](const json& type) { return type.is_string(); };
  if (!types->is_array() || !std::ranges::all_of(*types, known)) {
    fields.invalid("layer_types", *types, "a list of strings");
  }
  if (static_cast<std::int64_t>(types->size()) < config.layers) {
    fields.invalid("layer_types", *types,
                   fmt::format("a word for each of the {} layers", config.layers));
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    config.layer_kinds.push_back(
        kind_of_word((*types)[static_cast<std::size_t>(i)].get_ref<const std::string&>()));
  }
  return true;
}

// Every `interval`th layer is `full`, the others are `rest`.
void every(std::int64_t interval, LayerKind full, LayerKind rest, ModelConfig& config) {
  for (std::int64_t i = 1; i <= config.layers; ++i) {
    config.layer_kinds.push_back(i % interval == 0 ? full : rest);
  }
}

// A list of 0 and 1, one for each layer (more are draft layers).
bool read_flags(const ConfigFields& fields, std::string_view name, LayerKind zero, LayerKind one,
                ModelConfig& config) {
  const std::vector<std::int64_t> flags = fields.integers({name}, 0, 1);
  if (flags.empty()) return false;
  if (static_cast<std::int64_t>(flags.size()) < config.layers) {
    fields.invalid(name, *fields.find({name}),
                   fmt::format("a number for each of the {} layers", config.layers));
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    config.layer_kinds.push_back(flags[static_cast<std::size_t>(i)] == 0 ? zero : one);
  }
  return true;
}

void read_mllama(const ConfigFields& fields, ModelConfig& config) {
  const auto crossing = fields.integers({"cross_attention_layers"}, 0, config.layers - 1);
  if (crossing.empty()) return;
  config.layer_kinds.assign(static_cast<std::size_t>(config.layers), LayerKind::kFull);
  for (const std::int64_t layer : crossing) {
    config.layer_kinds[static_cast<std::size_t>(layer)] = LayerKind::kCross;
  }
}

// Where the file has no layer_types: what its class makes of its other fields.
void kinds_of_class(const ConfigFields& fields, std::string_view type, ModelConfig& config) {
  const auto pattern = [&](std::int64_t otherwise) {
    return fields.integer({"sliding_window_pattern"}, 1, kMaxLayers).value_or(otherwise);
  };
  if (type == "gemma2" || type == "gpt_oss") {
    every(2, LayerKind::kFull, LayerKind::kWindow, config);
  } else if (type == "gemma3_text") {
    every(pattern(6), LayerKind::kFull, LayerKind::kWindow, config);
  } else if (type == "cohere2") {
    every(pattern(4), LayerKind::kFull, LayerKind::kWindow, config);
  } else if (type == "qwen3_next") {
    every(fields.integer({"full_attention_interval"}, 1, kMaxLayers).value_or(4), LayerKind::kFull,
          LayerKind::kLinear, config);
  } else if (type == "llama4_text") {
    if (read_flags(fields, "no_rope_layers", LayerKind::kFull, LayerKind::kChunked, config)) return;
    every(fields.integer({"no_rope_layer_interval"}, 1, kMaxLayers).value_or(4), LayerKind::kFull,
          LayerKind::kChunked, config);
  } else if (type == "qwen2" || type == "qwen3" || type == "qwen2_moe" || type == "qwen3_moe") {
    // Only the layers from max_window_layers on have a window.
    const auto full = fields.integer({"max_window_layers"}, 0, kMaxContext);
    if (!full || config.sliding_window == 0) return;
    for (std::int64_t i = 0; i < config.layers; ++i) {
      config.layer_kinds.push_back(i < *full ? LayerKind::kFull : LayerKind::kWindow);
    }
  } else if (!read_flags(fields, "hybrid_layer_pattern", LayerKind::kFull, LayerKind::kWindow,
                         config)) {
    read_mllama(fields, config);
  }
}

void read_linear(const ConfigFields& fields, ModelConfig& config) {
  if (config.layers_of(LayerKind::kLinear) == 0) return;
  config.linear_key_heads = fields.integer({"linear_num_key_heads"}, 1, kMaxHeads).value_or(0);
  config.linear_value_heads = fields.integer({"linear_num_value_heads"}, 1, kMaxHeads).value_or(0);
  config.linear_key_head_dim = fields.integer({"linear_key_head_dim"}, 1, kMaxHeadDim).value_or(0);
  config.linear_value_head_dim =
      fields.integer({"linear_value_head_dim"}, 1, kMaxHeadDim).value_or(0);
  config.linear_conv_width = fields.integer({"linear_conv_kernel_dim"}, 1, 1024).value_or(0);
}

// The layers with experts, of those that the file's fields tell apart.
std::vector<bool> read_expert_layers(const ConfigFields& fields, const ModelConfig& config) {
  std::vector<bool> layers(static_cast<std::size_t>(config.layers), false);
  if (const json* words = fields.find({"mlp_layer_types"}); words != nullptr) {
    const auto known = [](const json& word) { return word == "dense" || word == "sparse"; };
    if (!words->is_array() || words->size() < layers.size() ||
        !std::ranges::all_of(*words, known)) {
      fields.invalid("mlp_layer_types", *words, "\"dense\" or \"sparse\" for each layer");
    }
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i] = (*words)[i] == "sparse";
    return layers;
  }
  if (const json* freq = fields.find({"moe_layer_freq"}); freq != nullptr && freq->is_array()) {
    const auto flags = fields.integers({"moe_layer_freq"}, 0, 1);
    for (std::size_t i = 0; i < std::min(layers.size(), flags.size()); ++i)
      layers[i] = flags[i] == 1;
    return layers;
  }
  const std::int64_t first = fields.integer({"first_k_dense_replace"}, 0, kMaxLayers).value_or(0);
  const std::int64_t step =
      fields
          .integer({"moe_layer_freq", "decoder_sparse_step", "interleave_moe_layer_step"}, 1,
                   kMaxLayers)
          .value_or(1);
  const auto dense = fields.integers({"mlp_only_layers"}, 0, kMaxLayers);
  // Layers are counted from 1 where only every second has experts, as the classes do.
  for (std::int64_t i = first; i < config.layers; ++i) {
    const bool listed = std::ranges::find(dense, i) != dense.end();
    layers[static_cast<std::size_t>(i)] = !listed && (i + 1) % step == 0;
  }
  return layers;
}

// What the class fixes, and what its file tells.
ExpertRouting read_routing(const ConfigFields& fields, std::string_view type) {
  const bool sigmoid_class = is_one_of(
      type, {"deepseek_v3", "deepseek_v32", "kimi_k2", "glm4_moe", "glm4_moe_lite", "glm_moe_dsa"});
  ExpertRouting routing;
  routing.scores = fields.word({"scoring_func"}).value_or(sigmoid_class ? "sigmoid" : "softmax");
  routing.method = fields.word({"topk_method"}).value_or(sigmoid_class ? "noaux_tc" : "greedy");
  routing.normalize = fields.boolean({"norm_topk_prob"}).value_or(sigmoid_class);
  if (type == "mixtral") routing.normalize = true;
  routing.scale = fields.number({"routed_scaling_factor"}, 0.0, kMaxScale).value_or(1.0);
  if (routing.method == "greedy") return routing;
  routing.groups = fields.integer({"n_group"}, 1, kMaxExperts).value_or(1);
  routing.picked_groups = fields.integer({"topk_group"}, 1, kMaxExperts).value_or(1);
  return routing;
}

double bits_of_method(const ConfigFields& quant, std::string_view method) {
  if (method == "fp8" || method == "fbgemm_fp8") return 8;
  if (method == "mxfp4") return 4.25;  // one 8-bit scale for 32 weights
  if (method == "awq" || method == "gptq") {
    const auto bits = quant.integer({"bits", "w_bit"}, 1, 16);
    const auto group = quant.integer({"group_size", "q_group_size"}, -1, kMaxInter).value_or(-1);
    if (!bits) return 0;
    const double scale = group > 0 ? (16.0 + static_cast<double>(*bits)) / group : 0;
    return static_cast<double>(*bits) + scale;  // a 16-bit scale and a zero point for each group
  }
  return 0;
}

}  // namespace

void read_layer_kinds(const ConfigFields& fields, std::string_view type, ModelConfig& config) {
  config.sliding_window = fields.integer({"sliding_window"}, 0, kMaxContext).value_or(0);
  if (!fields.boolean({"use_sliding_window"}).value_or(true)) config.sliding_window = 0;
  config.attention_chunk =
      type == "llama4_text" ? fields.integer({"attention_chunk_size"}, 1, kMaxContext).value_or(0)
                            : 0;
  if (!read_layer_types(fields, config)) kinds_of_class(fields, type, config);
  // A class without a chunk or a window has neither kind of layer.
  for (LayerKind& kind : config.layer_kinds) {
    if (kind == LayerKind::kChunked && config.attention_chunk == 0) kind = LayerKind::kFull;
    if (kind == LayerKind::kWindow && config.sliding_window == 0) kind = LayerKind::kFull;
  }
  if (!config.layer_kinds.empty()) {
    if (config.layers_of(LayerKind::kWindow) == 0) config.sliding_window = 0;
    if (config.layers_of(LayerKind::kFull) == config.layers) config.layer_kinds.clear();
  }
  config.dual_chunk_attention = fields.find({"dual_chunk_attention_config"}) != nullptr;
  config.window_kv_heads = fields.integer({"swa_num_key_value_heads"}, 1, kMaxHeads).value_or(0);
  config.attention_output_gate =
      fields.boolean({"attn_output_gate"}).value_or(type == "qwen3_next");
  config.index_topk = fields.integer({"index_topk"}, 0, kMaxContext).value_or(0);
  if (config.index_topk > 0) {
    config.index_heads = fields.integer({"index_n_heads"}, 1, kMaxHeads).value_or(0);
    config.index_head_dim = fields.integer({"index_head_dim"}, 1, kMaxHeadDim).value_or(0);
  }
  read_linear(fields, config);
}

void read_experts(const ConfigFields& fields, std::string_view type, ModelConfig& config) {
  config.nextn_layers =
      fields.integer({"num_nextn_predict_layers", "num_mtp_layers"}, 0, kMaxLayers).value_or(0);
  if (is_one_of(type, {"bart", "mbart", "marian", "whisper", "gpt2", "opt", "bloom", "falcon",
                       "bert", "phi", "gpt_neox", "gptj", "gpt_bigcode", "starcoder2"})) {
    config.gated_mlp = false;
  } else if (is_one_of(type, {"t5", "mt5", "umt5"})) {
    config.gated_mlp = fields.word({"feed_forward_proj"}).value_or("relu").starts_with("gated");
  }
  config.experts =
      fields
          .integer({"num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts"}, 0,
                   kMaxExperts)
          .value_or(0);
  if (config.experts == 0) return;
  config.experts_per_token =
      fields
          .integer({"num_experts_per_tok", "experts_per_token", "num_experts_per_token"}, 1,
                   config.experts)
          .value_or(0);
  config.moe_inter = fields.integer({"moe_intermediate_size"}, 1, kMaxInter).value_or(config.inter);
  config.expert_layers = read_expert_layers(fields, config);
  config.routing = read_routing(fields, type);
  const auto shared = fields.integer({"n_shared_experts", "num_shared_experts"}, 0, kMaxExperts);
  config.shared_inter = fields.integer({"shared_expert_intermediate_size"}, 0, kMaxInter)
                            .value_or(shared.value_or(0) * config.moe_inter);
  if (type == "llama4_text") {  // its expert layers have one shared expert of an expert's width
    config.shared_inter = config.moe_inter;
    config.dense_inter = fields.integer({"intermediate_size_mlp"}, 1, kMaxInter).value_or(0);
  }
}

void read_encoder(const ConfigFields& fields, std::string_view type, ModelConfig& config) {
  config.learned_positions = is_one_of(type, {"bart", "mbart", "whisper", "gpt2", "opt", "bert"});
  config.encoder_layers = fields.integer({"encoder_layers"}, 0, kMaxLayers).value_or(0);
  if (is_one_of(type, {"t5", "mt5", "umt5"})) {
    config.encoder_layers = fields.integer({"num_layers"}, 1, kMaxLayers).value_or(config.layers);
  }
  if (config.encoder_layers == 0) return;
  config.encoder_inter = fields.integer({"encoder_ffn_dim"}, 1, kMaxInter).value_or(config.inter);
}

void read_quantization(const ConfigFields& fields, ModelConfig& config) {
  static const json kNone = json::object();
  const json* object = fields.find({"quantization_config"});
  if (object == nullptr) return;
  if (!object->is_object()) fields.invalid("quantization_config", *object, "an object or null");
  const ConfigFields quant({object}, kNone, fields.file(), fields.architecture(),
                           "quantization_config.");
  WeightQuantization& stored = config.quantization;
  stored.method = quant.word({"quant_method"}).value_or("an unnamed method");
  stored.bits = bits_of_method(quant, stored.method);
  stored.only_experts = stored.method == "mxfp4";
  const auto block = quant.integers({"weight_block_size"}, 1, kMaxInter);
  if (block.empty()) return;
  if (block.size() != 2) {
    quant.invalid("weight_block_size", *quant.find({"weight_block_size"}), "two numbers");
  }
  stored.block_rows = block[0];
  stored.block_columns = block[1];
}

}  // namespace quern::checkpoint
