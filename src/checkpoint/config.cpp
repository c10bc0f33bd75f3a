#include "checkpoint/config.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/config_defaults.h"
#include "checkpoint/config_fields.h"
#include "checkpoint/config_layers.h"
#include "checkpoint/json.h"
#include "checkpoint/limits.h"

namespace quern::checkpoint {
namespace {

using nlohmann::json;

constexpr double kTiny = 1e-12, kHuge = 1e12;

// The object with the language model's fields: the root, or what a multi-modal config nests.
const json* text_object(const json& root) {
  for (const char* name : {"text_config", "language_config", "llm_config"}) {
    const auto it = root.find(name);
    if (it != root.end() && it->is_object()) return &*it;
  }
  return &root;
}

std::string string_field(const json& object, std::string_view name, const std::string& file) {
  const auto it = object.find(name);
  if (it == object.end() || it->is_null()) return "";
  if (it->is_string()) return it->get<std::string>();
  throw Error(
      errors::kConfigFieldInvalid,
      {{"file", file}, {"field", name}, {"value", json_excerpt(*it)}, {"expected", "a string"}});
}

std::string first_architecture(const json& root, const std::string& model_type,
                               const std::string& file) {
  const auto it = root.find("architectures");
  if (it != root.end() && !it->is_null()) {
    const bool names = it->is_array() && (it->empty() || it->front().is_string());
    if (!names) {
      throw Error(errors::kConfigFieldInvalid, {{"file", file},
                                                {"field", "architectures"},
                                                {"value", json_excerpt(*it)},
                                                {"expected", "a list of class names"}});
    }
    if (!it->empty() && !it->front().get<std::string>().empty()) return it->front();
  }
  if (!model_type.empty()) return std::string(default_architecture(model_type));
  throw Error(errors::kConfigFieldMissing,
              {{"file", file}, {"field", "architectures"}, {"architecture", "every model"}});
}

// Multi-query attention told by a flag instead of a number.
bool one_kv_head(const ConfigFields& fields, std::string_view model_type) {
  if (model_type == "falcon" && fields.boolean({"new_decoder_architecture"}).value_or(false)) {
    return false;
  }
  if (model_type != "falcon" && model_type != "gpt_bigcode") return false;
  return fields.boolean({"multi_query"}).value_or(true);
}

// Layers, widths and counts.
void read_sizes(const ConfigFields& fields, ModelConfig& config) {
  config.hidden =
      fields.required_integer({"hidden_size", "d_model", "n_embd", "n_embed"}, 1, kMaxHidden);
  config.layers =
      fields.required_integer({"num_hidden_layers", "decoder_layers", "num_decoder_layers",
                               "n_layer", "n_layers", "num_layers"},
                              1, kMaxLayers);
  // Where an encoder has its own depth, num_hidden_layers repeats that one.
  if (const auto layers = fields.integer({"decoder_layers", "num_decoder_layers"}, 1, kMaxLayers)) {
    config.layers = *layers;
  }
  config.heads = fields.required_integer(
      {"num_attention_heads", "decoder_attention_heads", "n_head", "n_heads", "num_heads"}, 1,
      kMaxHeads);
  config.kv_heads =
      fields
          .integer({"num_key_value_heads", "num_kv_heads", "n_head_kv", "multi_query_group_num"}, 1,
                   kMaxHeads)
          .value_or(one_kv_head(fields, config.model_type) ? 1 : config.heads);
  config.inter = fields
                     .integer({"intermediate_size", "decoder_ffn_dim", "d_ff", "n_inner", "ffn_dim",
                               "ffn_hidden_size"},
                              1, kMaxInter)
                     .value_or(0);
  config.vocab = fields.integer({"vocab_size", "padded_vocab_size"}, 1, kMaxVocab).value_or(0);
  config.context_length = fields
                              .integer({"max_position_embeddings", "max_target_positions",
                                        "n_positions", "max_seq_len", "seq_length", "n_ctx"},
                                       1, kMaxContext)
                              .value_or(0);
}

void read_head_dims(const ConfigFields& fields, ModelConfig& config) {
  config.kv_lora_rank = fields.integer({"kv_lora_rank"}, 0, kMaxHidden).value_or(0);
  if (config.kv_lora_rank > 0) {
    config.q_lora_rank = fields.integer({"q_lora_rank"}, 0, kMaxHidden).value_or(0);
    config.qk_nope_head_dim = fields.required_integer({"qk_nope_head_dim"}, 1, kMaxHeadDim);
    config.qk_rope_head_dim = fields.required_integer({"qk_rope_head_dim"}, 1, kMaxHeadDim);
    const auto v_head_dim = fields.integer({"v_head_dim"}, 1, kMaxHeadDim);
    if (!v_head_dim && config.model_type != "minicpm3") fields.missing("v_head_dim");
    config.v_head_dim =
        v_head_dim.value_or(std::max<std::int64_t>(1, config.hidden / config.heads));
    config.head_dim = config.qk_nope_head_dim + config.qk_rope_head_dim;
    config.kv_heads = config.heads;
    return;
  }
  if (is_latent_class(config.architecture)) fields.missing("kv_lora_rank");
  const auto head_dim = fields.integer({"head_dim", "d_kv", "kv_channels"}, 1, kMaxHeadDim);
  if (!head_dim && config.hidden % config.heads != 0) {
    fields.invalid("num_attention_heads", config.heads,
                   fmt::format("a divisor of the hidden size {}, or a head_dim", config.hidden));
  }
  config.head_dim = head_dim.value_or(config.hidden / config.heads);
  config.v_head_dim = fields.integer({"v_head_dim"}, 1, kMaxHeadDim).value_or(config.head_dim);
}

// rope_parameters or rope_scaling, whichever the file has; those of the layers that see everything
// where there is a set for each kind of layer.
const json* rope_object(const ConfigFields& fields) {
  const json* rope = fields.find({"rope_parameters", "rope_scaling"});
  if (rope == nullptr) return nullptr;
  if (!rope->is_object()) fields.invalid("rope_scaling", *rope, "an object or null");
  const auto full = rope->find("full_attention");
  return full != rope->end() && full->is_object() ? &*full : rope;
}

// What the file leaves out or sets to zero keeps its default, as its authors' class does.
void read_yarn(const ConfigFields& rope, RopeScaling& scaling) {
  const auto read = [&](std::string_view name, double& value) {
    const double given = rope.number({name}, 0.0, kHuge).value_or(0.0);
    if (given > 0) value = given;
  };
  read("beta_fast", scaling.beta_fast);
  read("beta_slow", scaling.beta_slow);
  read("attention_factor", scaling.attention_factor);
  read("mscale", scaling.mscale);
  read("mscale_all_dim", scaling.mscale_all_dim);
  scaling.truncate = rope.boolean({"truncate"}).value_or(true);
}

RopeScaling read_rope_scaling(const ConfigFields& fields, const ConfigFields& rope) {
  RopeScaling scaling;
  const auto type = rope.word({"rope_type", "type"});
  if (!type && rope.find({"factor"}) != nullptr) rope.missing("rope_type");
  if (!type || *type == "default" || *type == "none") return scaling;
  scaling.type = *type;
  if (scaling.type == "longrope" || scaling.type == "su") {
    scaling.type = "longrope";
    scaling.factor = rope.number({"factor"}, kTiny, kHuge).value_or(1.0);
  } else if (scaling.type == "linear" || scaling.type == "dynamic" || scaling.type == "yarn" ||
             scaling.type == "llama3") {
    scaling.factor = rope.required_number({"factor"}, kTiny, kHuge);
  } else {
    scaling.factor = rope.number({"factor"}, kTiny, kHuge).value_or(1.0);
  }
  const FieldNames original = {"original_max_position_embeddings"};
  if (scaling.type == "yarn") read_yarn(rope, scaling);
  if (scaling.type == "llama3") {
    scaling.low_freq_factor = rope.required_number({"low_freq_factor"}, kTiny, kHuge);
    scaling.high_freq_factor = rope.required_number({"high_freq_factor"}, kTiny, kHuge);
    scaling.original_context_length = rope.required_number(original, 1, kMaxContext);
    if (scaling.high_freq_factor < scaling.low_freq_factor) {  // equal in Llama 4
      rope.invalid("high_freq_factor", scaling.high_freq_factor, "at least low_freq_factor");
    }
    return scaling;
  }
  const auto length = rope.number(original, 1, kMaxContext);
  scaling.original_context_length =
      length ? *length : fields.number(original, 1, kMaxContext).value_or(0);
  if (scaling.type == "yarn" && scaling.original_context_length == 0) {
    rope.missing("original_max_position_embeddings");
  }
  return scaling;
}

void read_rope(const ConfigFields& fields, ModelConfig& config) {
  static const json kEmpty = json::object();
  const json* object = rope_object(fields);
  const ConfigFields rope({object == nullptr ? &kEmpty : object}, kEmpty, fields.file(),
                          fields.architecture(), "rope_scaling.");
  config.rope_scaling = read_rope_scaling(fields, rope);
  // Zero as a base would divide by zero later; one rotates every pair alike.
  auto theta = rope.number({"rope_theta"}, 1.0, kHuge);
  if (!theta) theta = fields.number({"rope_theta", "rotary_emb_base"}, 1.0, kHuge);
  config.rope_theta = theta.value_or(10000.0);
  auto share = rope.number({"partial_rotary_factor"}, 0.0, 1.0);
  if (!share) share = fields.number({"partial_rotary_factor", "rotary_pct"}, 0.0, 1.0);
  config.rope_interleaved = fields.boolean({"rope_interleave"}).value_or(false);
  if (has_no_rope(config.model_type)) return;
  config.rope_dim =
      config.kv_lora_rank > 0
          ? config.qk_rope_head_dim
          : static_cast<std::int64_t>(static_cast<double>(config.head_dim) * share.value_or(1.0));
}

DType read_dtype(const ConfigFields& fields) {
  auto word = fields.word({"torch_dtype", "dtype"});
  if (!word) return ModelConfig{}.dtype;
  std::string_view name = *word;
  if (name.starts_with("torch.")) name.remove_prefix(6);
  const auto dtype = parse_float_dtype(name);
  if (!dtype) fields.invalid("torch_dtype", *word, "float32, float16 or bfloat16");
  return *dtype;
}

void add_eos_ids(const ConfigFields& fields, ModelConfig& config) {
  for (const std::int64_t id : fields.integers({"eos_token_id"}, 0, kMaxVocab)) {
    const auto eos = static_cast<std::int32_t>(id);
    auto& ids = config.eos_token_ids;
    if (std::ranges::find(ids, eos) == ids.end()) ids.push_back(eos);
  }
}

void require_serving_fields(const ConfigFields& fields, const ModelConfig& config) {
  if (config.vocab == 0 && config.architecture.ends_with("ForCausalLM")) {
    fields.missing("vocab_size");
  }
  if (config.model_type != "llama") return;
  if (config.inter == 0) fields.missing("intermediate_size");
  if (config.context_length == 0) fields.missing("max_position_embeddings");
}

}  // namespace

bool is_encoder_decoder_class(std::string_view architecture) {
  static constexpr std::string_view kClasses[] = {
      "BartForConditionalGeneration",
      "BartModel",
      "BlenderbotForConditionalGeneration",
      "Florence2ForConditionalGeneration",
      "LEDForConditionalGeneration",
      "M2M100ForConditionalGeneration",
      "MBartForConditionalGeneration",
      "MT5ForConditionalGeneration",
      "MarianMTModel",
      "MllamaForCausalLM",
      "MllamaForConditionalGeneration",
      "PegasusForConditionalGeneration",
      "T5ForConditionalGeneration",
      "T5Model",
      "UMT5ForConditionalGeneration",
      "WhisperForConditionalGeneration",
  };
  return std::ranges::find(kClasses, architecture) != std::end(kClasses);
}

ModelConfig parse_config(std::string_view text, const std::string& file) {
  const json root = parse_json_object(text, file);
  const json* inner = text_object(root);
  ModelConfig config;
  config.origin = file;
  config.model_type = string_field(root, "model_type", file);
  std::string inner_type = string_field(*inner, "model_type", file);
  if (inner_type.empty()) inner_type = config.model_type;
  if (config.model_type.empty()) config.model_type = inner_type;
  config.architecture = first_architecture(root, config.model_type, file);

  const json defaults = class_defaults(inner_type);
  // The language model's own fields decide; the root's count for what concerns the whole model.
  const ConfigFields fields({inner}, defaults, file, config.architecture);
  const ConfigFields shared({inner, &root}, defaults, file, config.architecture);

  read_sizes(fields, config);
  read_head_dims(fields, config);
  read_experts(fields, inner_type, config);
  read_layer_kinds(fields, inner_type, config);
  read_encoder(fields, inner_type, config);
  read_quantization(shared, config);
  read_rope(fields, config);
  config.rms_norm_eps =
      fields.number({"rms_norm_eps", "layer_norm_eps", "layer_norm_epsilon"}, 0.0, 1.0)
          .value_or(config.rms_norm_eps);
  config.activation =
      fields.word({"hidden_act", "hidden_activation", "activation_function", "feed_forward_proj"})
          .value_or(config.activation);
  config.attention_bias = fields.boolean({"attention_bias"}).value_or(false);
  config.mlp_bias = fields.boolean({"mlp_bias"}).value_or(false);
  config.attention_soft_cap = fields.number({"attn_logit_softcapping"}, 0.0, kHuge).value_or(0.0);
  config.attention_sinks = inner_type == "gpt_oss" ||
                           fields.boolean({"add_swa_attention_sink_bias"}).value_or(false) ||
                           fields.boolean({"add_full_attention_sink_bias"}).value_or(false);
  config.text_only = inner == &root;
  config.tied_embeddings = shared.boolean({"tie_word_embeddings"}).value_or(false);
  config.dtype = read_dtype(shared);
  config.encoder_decoder = is_encoder_decoder_class(config.architecture) ||
                           shared.boolean({"is_encoder_decoder"}).value_or(false);
  // Some tokenizers write -1 for "no such token".
  config.bos_token_id =
      static_cast<std::int32_t>(shared.integer({"bos_token_id"}, -1, kMaxVocab).value_or(-1));
  add_eos_ids(shared, config);
  require_serving_fields(fields, config);
  check_config(config);
  return config;
}

GenerationDefaults parse_generation_config(std::string_view text, const std::string& file,
                                           ModelConfig& config) {
  static const json kNone = json::object();
  const json root = parse_json_object(text, file);
  const ConfigFields fields({&root}, kNone, file, config.architecture);
  GenerationDefaults defaults;
  defaults.temperature = fields.number({"temperature"}, 0.0, 1e6);
  defaults.top_p = fields.number({"top_p"}, 0.0, 1.0);
  defaults.min_p = fields.number({"min_p"}, 0.0, 1.0);
  defaults.top_k = fields.integer({"top_k"}, -1, kMaxVocab);
  add_eos_ids(fields, config);
  const std::int32_t last =
      config.eos_token_ids.empty() ? -1 : *std::ranges::max_element(config.eos_token_ids);
  if (config.vocab > 0 && last >= config.vocab) {
    fields.invalid("eos_token_id", last,
                   fmt::format("an id below the vocabulary's {}", config.vocab));
  }
  return defaults;
}

void check_config(const ModelConfig& config) {
  const auto invalid = [&](std::string_view field, std::int64_t value, std::string expected) {
    throw Error(
        errors::kConfigFieldInvalid,
        {{"file", config.origin}, {"field", field}, {"value", value}, {"expected", expected}});
  };
  if (config.heads % config.kv_heads != 0) {
    invalid("num_key_value_heads", config.kv_heads,
            fmt::format("a divisor of the {} attention heads", config.heads));
  }
  if (config.rope_dim % 2 != 0 || config.rope_dim > config.head_dim) {
    invalid(config.kv_lora_rank > 0 ? "qk_rope_head_dim" : "rope dimension", config.rope_dim,
            fmt::format("an even number up to the head dimension {}", config.head_dim));
  }
  const std::int64_t groups = config.routing.groups, picked = config.routing.picked_groups;
  if (config.experts % groups != 0) {
    invalid("n_group", groups, fmt::format("a divisor of the {} experts", config.experts));
  }
  if (picked > groups) {
    invalid("topk_group", picked, fmt::format("at most the {} groups of experts", groups));
  }
  if (config.vocab == 0) return;
  const std::string below = fmt::format("an id below the vocabulary's {}", config.vocab);
  if (config.bos_token_id >= config.vocab) invalid("bos_token_id", config.bos_token_id, below);
  for (const std::int32_t id : config.eos_token_ids) {
    if (id >= config.vocab) invalid("eos_token_id", id, below);
  }
}

}  // namespace quern::checkpoint
