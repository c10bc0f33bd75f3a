#include "checkpoint/gguf_config.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/config.h"
#include "checkpoint/gguf_fields.h"
#include "checkpoint/limits.h"

namespace quern::checkpoint {
namespace {

constexpr std::int32_t kControlToken = 3;
constexpr std::uint64_t kMaxCharsmap = std::uint64_t{1} << 24;
constexpr double kTiny = 1e-12, kHuge = 1e12;

struct Architecture {
  std::string_view gguf, class_name, model_type;
};

constexpr Architecture kArchitectures[] = {
    {"llama", "LlamaForCausalLM", "llama"},
    {"qwen2", "Qwen2ForCausalLM", "qwen2"},
    {"qwen2moe", "Qwen2MoeForCausalLM", "qwen2_moe"},
    {"qwen3", "Qwen3ForCausalLM", "qwen3"},
    {"qwen3moe", "Qwen3MoeForCausalLM", "qwen3_moe"},
    {"gemma", "GemmaForCausalLM", "gemma"},
    {"gemma2", "Gemma2ForCausalLM", "gemma2"},
    {"gemma3", "Gemma3ForCausalLM", "gemma3_text"},
    {"phi3", "Phi3ForCausalLM", "phi3"},
    {"gpt-oss", "GptOssForCausalLM", "gpt_oss"},
    {"llama4", "Llama4ForCausalLM", "llama4_text"},
    {"bert", "BertModel", "bert"},
    {"t5", "T5ForConditionalGeneration", "t5"},
};

void name_architecture(const std::string& gguf, const GgufFields& fields, ModelConfig& config) {
  config.architecture = config.model_type = valid_utf8(gguf);
  for (const Architecture& known : kArchitectures) {
    if (known.gguf != gguf) continue;
    config.architecture = known.class_name;
    config.model_type = known.model_type;
  }
  if (gguf == "deepseek2") {
    // Both generations share one name there; only the later one gates by sigmoid.
    const bool sigmoid = fields.integer("expert_gating_func", 0, 100).value_or(1) == 2;
    config.architecture = sigmoid ? "DeepseekV3ForCausalLM" : "DeepseekV2ForCausalLM";
    config.model_type = sigmoid ? "deepseek_v3" : "deepseek_v2";
  }
  if (gguf == "llama" && config.experts > 0) {
    config.architecture = "MixtralForCausalLM";
    config.model_type = "mixtral";
  }
}

// A count that may stand once for all layers or once a layer; layers that differ are refused.
std::optional<std::int64_t> uniform_count(const GgufFields& fields, std::string_view key) {
  const GgufValue* value = fields.find(key);
  if (value == nullptr || value->type != GgufType::kArray) {
    return fields.integer(key, 1, kMaxHeads);
  }
  const auto counts = value->integers();
  const bool equal = counts && !counts->empty() && counts->front() >= 1 &&
                     counts->front() <= kMaxHeads &&
                     std::ranges::all_of(*counts, [&](auto n) { return n == counts->front(); });
  if (!equal) fields.invalid(key, *value, "one count from 1 to 65536, equal in all layers");
  return counts->front();
}

std::int64_t vocab_of(const GgufHeader& header, const GgufFields& fields) {
  std::int64_t rows = 0;
  for (const GgufTensor& tensor : header.tensors) {
    if (tensor.name == "token_embd.weight") rows = static_cast<std::int64_t>(tensor.dims.back());
  }
  const auto declared = fields.integer("vocab_size", 1, kMaxVocab);
  const GgufValue* value = fields.find("vocab_size");
  if (declared && rows > 0 && *declared != rows) {
    fields.invalid("vocab_size", *value, fmt::format("the {} rows of token_embd.weight", rows));
  }
  if (rows > kMaxVocab) {
    throw Error(errors::kConfigFieldInvalid, {{"file", header.file},
                                              {"field", "rows of token_embd.weight"},
                                              {"value", rows},
                                              {"expected", fmt::format("at most {}", kMaxVocab)}});
  }
  if (declared) return *declared;
  if (rows > 0) return rows;
  const GgufValue* tokens = header.find("tokenizer.ggml.tokens");
  if (tokens == nullptr || tokens->type != GgufType::kArray || tokens->count == 0) {
    fields.missing("vocab_size");
  }
  return static_cast<std::int64_t>(std::min<std::uint64_t>(tokens->count, kMaxVocab));
}

void read_heads(const GgufFields& fields, ModelConfig& config) {
  const auto heads = uniform_count(fields, "attention.head_count");
  if (!heads) fields.missing("attention.head_count");
  config.heads = *heads;
  config.kv_heads = uniform_count(fields, "attention.head_count_kv").value_or(config.heads);
  config.kv_lora_rank = fields.integer("attention.kv_lora_rank", 0, kMaxHidden).value_or(0);
  const auto key_length = fields.integer("attention.key_length", 1, kMaxHeadDim);
  if (!key_length && config.hidden % config.heads != 0) {
    fields.invalid("attention.head_count", *fields.find("attention.head_count"),
                   fmt::format("a divisor of the hidden size {}, or a key_length", config.hidden));
  }
  config.head_dim = key_length.value_or(config.hidden / config.heads);
  config.v_head_dim =
      fields.integer("attention.value_length", 1, kMaxHeadDim).value_or(config.head_dim);
  config.rope_dim =
      fields.integer("rope.dimension_count", 0, kMaxHeadDim).value_or(config.head_dim);
  if (config.kv_lora_rank == 0) return;
  config.q_lora_rank = fields.integer("attention.q_lora_rank", 0, kMaxHidden).value_or(0);
  const std::int64_t rope = fields.required_integer("rope.dimension_count", 1, kMaxHeadDim);
  // Newer files give the latent's sizes as key_length and the heads' own as key_length_mla.
  const bool of_latent = config.kv_heads == 1 && config.heads > 1;
  const auto length = [&](std::string_view key) {
    const std::string own = fmt::format("attention.{}_length_mla", key);
    if (of_latent || fields.find(own) != nullptr) {
      return fields.required_integer(own, 1, kMaxHeadDim);
    }
    return fields.required_integer(fmt::format("attention.{}_length", key), 1, kMaxHeadDim);
  };
  config.head_dim = length("key");
  config.v_head_dim = length("value");
  config.kv_heads = config.heads;
  config.qk_rope_head_dim = config.rope_dim = rope;
  config.qk_nope_head_dim = config.head_dim - rope;
  if (config.qk_nope_head_dim < 1) {
    fields.invalid("rope.dimension_count", *fields.find("rope.dimension_count"),
                   fmt::format("below the {} dims of a key", config.head_dim));
  }
}

void read_yarn(const GgufFields& fields, const std::string& architecture, RopeScaling& scaling) {
  const auto read = [&](std::string_view key, double& value) {
    if (const auto given = fields.number(key, kTiny, kHuge)) value = *given;
  };
  read("rope.scaling.yarn_beta_fast", scaling.beta_fast);
  read("rope.scaling.yarn_beta_slow", scaling.beta_slow);
  read("rope.scaling.yarn_attn_factor", scaling.attention_factor);
  const double log_multiplier =
      fields.number("rope.scaling.yarn_log_multiplier", 0.0, kHuge).value_or(0.0);
  // Files of this architecture hold a tenth of mscale_all_dim, and no mscale, which is the same.
  scaling.mscale_all_dim = architecture == "deepseek2" ? 10 * log_multiplier : log_multiplier;
  scaling.mscale = scaling.mscale_all_dim;
  const auto extrapolation = fields.number("rope.scaling.yarn_ext_factor", -kHuge, kHuge);
  if (extrapolation.value_or(1.0) >= 0 && extrapolation.value_or(1.0) != 1.0) {
    fields.invalid("rope.scaling.yarn_ext_factor", *fields.find("rope.scaling.yarn_ext_factor"),
                   "1, or a negative number for the same");
  }
}

void read_rope(const GgufFields& fields, const std::string& architecture, ModelConfig& config) {
  config.rope_theta = fields.number("rope.freq_base", 1.0, kHuge).value_or(10000.0);
  config.rope_interleaved = architecture == "llama" || architecture == "deepseek2";
  RopeScaling& scaling = config.rope_scaling;
  scaling.type = valid_utf8(fields.string("rope.scaling.type").value_or("none"));
  if (const auto factor = fields.number("rope.scaling.factor", kTiny, kHuge)) {
    scaling.factor = *factor;
  } else if (const auto scale = fields.number("rope.scale_linear", kTiny, kHuge)) {
    scaling.factor = *scale;
    if (scaling.type == "none" && *scale != 1.0) scaling.type = "linear";
  } else if (scaling.type == "linear" || scaling.type == "yarn") {
    fields.missing("rope.scaling.factor");
  }
  scaling.original_context_length =
      fields.number("rope.scaling.original_context_length", 0, kMaxContext).value_or(0);
  if (scaling.type != "yarn") return;
  if (scaling.original_context_length == 0) fields.missing("rope.scaling.original_context_length");
  read_yarn(fields, architecture, scaling);
}

// What the file tells; what the architecture fixes.
ExpertRouting read_routing(const GgufHeader& header, const GgufFields& fields,
                           std::string_view architecture) {
  ExpertRouting routing;
  if (fields.integer("expert_gating_func", 0, 100).value_or(1) == 2) routing.scores = "sigmoid";
  const bool biased = std::ranges::any_of(header.tensors, [](const GgufTensor& tensor) {
    return tensor.name.ends_with(".exp_probs_b.bias");
  });
  routing.normalize = fields.boolean("expert_weights_norm")
                          .value_or(architecture == "llama" || architecture == "qwen3moe");
  const double scale = fields.number("expert_weights_scale", 0.0, kHuge).value_or(1.0);
  routing.scale = scale == 0.0 ? 1.0 : scale;  // 0 stands for none there
  routing.groups = fields.integer("expert_group_count", 1, kMaxExperts).value_or(1);
  routing.picked_groups = fields.integer("expert_group_used_count", 1, kMaxExperts).value_or(1);
  routing.method = biased ? "noaux_tc" : routing.groups > 1 ? "group_limited_greedy" : "greedy";
  return routing;
}

// The layers that block_count promises must have tensors; which ones, the model family knows.
void check_blocks(const GgufHeader& header, const GgufFields& fields, const ModelConfig& config) {
  if (header.tensors.empty()) return;
  std::set<std::int64_t> blocks;
  for (const GgufTensor& tensor : header.tensors) {
    if (!tensor.name.starts_with("blk.")) continue;
    std::int64_t number = -1;
    const char* begin = tensor.name.data() + 4;
    const auto [end, fault] =
        std::from_chars(begin, tensor.name.data() + tensor.name.size(), number);
    if (fault == std::errc{} && number >= 0 && *begin != '-') blocks.insert(number);
  }
  for (std::int64_t i = 0; i < config.layers; ++i) {
    if (blocks.contains(i)) continue;
    throw Error(errors::kCheckpointTensorMissing,
                {{"tensor", fmt::format("blk.{}.*", i)},
                 {"file", header.file},
                 {"reason", fmt::format("{}.block_count (byte {}) is {}",
                                        header.find("general.architecture")->string().value_or(""),
                                        fields.find("block_count")->offset, config.layers)}});
  }
}

bool has_tensor(const GgufHeader& header, std::string_view name) {
  return std::ranges::find(header.tensors, name, &GgufTensor::name) != header.tensors.end();
}

// The id of a control token, or -1.
std::int32_t control_token(const GgufFields& fields, std::string_view text, std::int64_t vocab) {
  const GgufValue* tokens = fields.find("tokens");
  const GgufValue* types = fields.find("token_type");
  if (tokens == nullptr || types == nullptr || tokens->count != types->count) return -1;
  if (tokens->count > static_cast<std::uint64_t>(vocab)) return -1;
  const auto names = tokens->strings();
  const auto kinds = types->integers();
  if (!names || !kinds) return -1;
  const auto it = std::ranges::find(*names, text);
  const auto id = static_cast<std::size_t>(it - names->begin());
  return it != names->end() && (*kinds)[id] == kControlToken ? static_cast<std::int32_t>(id) : -1;
}

// The end-of-sequence tokens: as declared, and the end of a ChatML turn.
void read_special_ids(const GgufHeader& header, ModelConfig& config) {
  const GgufFields fields(header, "tokenizer.ggml.");
  const auto id_of = [&](std::string_view key) {
    return static_cast<std::int32_t>(fields.integer(key, 0, config.vocab - 1).value_or(-1));
  };
  const auto add_eos = [&](std::int32_t id) {
    auto& ids = config.eos_token_ids;
    if (id >= 0 && std::ranges::find(ids, id) == ids.end()) ids.push_back(id);
  };
  config.bos_token_id = id_of("bos_token_id");
  for (const char* key : {"eos_token_id", "eot_token_id", "eom_token_id"}) add_eos(id_of(key));
  add_eos(control_token(fields, "<|im_end|>", config.vocab));
}

std::vector<std::string> string_array(const GgufFields& fields, std::string_view key) {
  const GgufValue* found = fields.find(key);
  if (found == nullptr) return {};
  if (found->count > static_cast<std::uint64_t>(kMaxTokens)) {
    fields.invalid(key, *found, fmt::format("at most {} strings", kMaxTokens));
  }
  auto strings = found->strings();
  if (!strings) fields.invalid(key, *found, "an array of strings");
  return *std::move(strings);
}

std::vector<std::int32_t> token_types(const GgufFields& fields, std::size_t tokens) {
  constexpr std::string_view kKey = "token_type";
  const GgufValue* found = fields.find(kKey);
  if (found == nullptr) return {};
  if (found->count != tokens) {
    fields.invalid(kKey, *found, fmt::format("one value for each of the {} tokens", tokens));
  }
  const auto values = found->integers();
  if (!values || std::ranges::any_of(*values, [](auto type) { return type < 0 || type > 6; })) {
    fields.invalid(kKey, *found, "an array of integers from 0 to 6");
  }
  return {values->begin(), values->end()};
}

std::vector<double> scores(const GgufFields& fields, std::size_t tokens) {
  constexpr std::string_view kKey = "scores";
  const GgufValue* found = fields.find(kKey);
  if (found == nullptr) return {};
  const auto values = found->count == tokens ? found->reals() : std::nullopt;
  if (!values) {
    fields.invalid(kKey, *found, fmt::format("one number for each of the {} tokens", tokens));
  }
  return *values;
}

std::string charsmap(const GgufFields& fields) {
  constexpr std::string_view kKey = "precompiled_charsmap";
  const GgufValue* found = fields.find(kKey);
  if (found == nullptr) return {};
  const auto values = found->count <= kMaxCharsmap ? found->integers() : std::nullopt;
  if (!values) fields.invalid(kKey, *found, "an array of bytes");
  std::string bytes;
  for (const auto value : *values) bytes += static_cast<char>(value);
  return bytes;
}

}  // namespace

ModelConfig gguf_config(const GgufHeader& header) {
  ModelConfig config;
  config.origin = header.file;
  const GgufFields general(header, "general.");
  const auto architecture = general.string("architecture");
  if (!architecture || architecture->empty()) general.missing("architecture");
  config.name = valid_utf8(general.string("name").value_or(""));
  const GgufFields fields(header, *architecture + ".");

  config.hidden = fields.required_integer("embedding_length", 1, kMaxHidden);
  config.layers = fields.required_integer("block_count", 1, kMaxLayers);
  config.context_length = fields.required_integer("context_length", 1, kMaxContext);
  // The layers of multi-token prediction are counted there.
  config.nextn_layers = fields.integer("nextn_predict_layers", 0, config.layers - 1).value_or(0);
  config.layers -= config.nextn_layers;
  if (*architecture == "deepseek2")
    fields.required_integer("attention.kv_lora_rank", 1, kMaxHidden);
  const GgufValue* inter = fields.find("feed_forward_length");
  if (inter != nullptr && inter->type != GgufType::kArray) {
    config.inter = fields.required_integer("feed_forward_length", 1, kMaxInter);
  }
  read_heads(fields, config);
  read_rope(fields, *architecture, config);
  config.vocab = vocab_of(header, fields);
  for (const char* key : {"attention.layer_norm_rms_epsilon", "attention.layer_norm_epsilon"}) {
    if (const auto eps = fields.number(key, 0.0, 1.0)) config.rms_norm_eps = *eps;
  }
  config.sliding_window = fields.integer("attention.sliding_window", 0, kMaxContext).value_or(0);
  config.attention_soft_cap = fields.number("attn_logit_softcapping", 0.0, kHuge).value_or(0.0);
  config.attention_sinks = *architecture == "gpt-oss";
  config.experts = fields.integer("expert_count", 0, kMaxExperts).value_or(0);
  config.experts_per_token = fields.integer("expert_used_count", 0, config.experts).value_or(0);
  if (config.experts > 0) {
    config.moe_inter =
        fields.integer("expert_feed_forward_length", 1, kMaxInter).value_or(config.inter);
    const std::int64_t dense =
        fields.integer("leading_dense_block_count", 0, config.layers).value_or(0);
    config.expert_layers.assign(static_cast<std::size_t>(config.layers), true);
    std::fill_n(config.expert_layers.begin(), dense, false);
    config.routing = read_routing(header, fields, *architecture);
    config.shared_inter =
        fields.integer("expert_shared_count", 0, kMaxExperts).value_or(0) * config.moe_inter;
  }
  config.tied_embeddings = !has_tensor(header, "output.weight");
  name_architecture(*architecture, fields, config);
  config.encoder_decoder = is_encoder_decoder_class(config.architecture);
  if (config.architecture == "LlamaForCausalLM" && config.inter == 0) {
    fields.missing("feed_forward_length");
  }
  read_special_ids(header, config);
  check_config(config);
  check_blocks(header, fields, config);
  return config;
}

TokenizerSource gguf_tokenizer(const GgufHeader& header, const ModelConfig& config) {
  const GgufFields fields(header, "tokenizer.ggml.");
  TokenizerSource source;
  source.origin = header.file;
  source.model = fields.string("model").value_or("");
  source.pre = fields.string("pre").value_or("");
  source.tokens = string_array(fields, "tokens");
  if (source.tokens.size() > static_cast<std::size_t>(config.vocab)) {
    fields.invalid("tokens", *fields.find("tokens"),
                   fmt::format("at most {}, the rows of the embedding", config.vocab));
  }
  source.token_types = token_types(fields, source.tokens.size());
  source.merges = string_array(fields, "merges");
  source.scores = scores(fields, source.tokens.size());
  source.charsmap = charsmap(fields);
  // Where the file does not say it, these begin texts: SentencePiece BPE, Llama 3's and Mistral's.
  constexpr std::array<std::string_view, 9> kBegin = {"llama-bpe", "llama3",    "llama-v3",
                                                      "falcon3",   "falcon-h1", "pixtral",
                                                      "midm-2.0",  "lfm2",      "tekken"};
  const bool begins =
      source.model == "llama" || std::ranges::find(kBegin, source.pre) != kBegin.end();
  source.add_bos = fields.boolean("add_bos_token").value_or(begins);
  source.add_eos = fields.boolean("add_eos_token").value_or(source.model == "t5");
  source.add_space_prefix = fields.boolean("add_space_prefix").value_or(true);
  source.remove_extra_whitespaces = fields.boolean("remove_extra_whitespaces").value_or(false);
  const auto id_of = [&](std::string_view key) {
    return static_cast<std::int32_t>(fields.integer(key, 0, config.vocab - 1).value_or(-1));
  };
  source.unknown_token_id = id_of("unknown_token_id");
  source.separator_token_id = id_of("seperator_token_id");  // spelt so in the files
  source.eos_token_id = id_of("eos_token_id");
  source.bos_token_id = config.bos_token_id;
  // BERT's files name the token that begins texts in another field, some leave it out.
  if (source.model == "bert" && source.bos_token_id < 0)
    source.bos_token_id = id_of("cls_token_id");
  if (const auto id = static_cast<std::size_t>(config.bos_token_id); id < source.tokens.size()) {
    source.bos_token = source.tokens[id];
  }
  if (!config.eos_token_ids.empty()) {
    const auto id = static_cast<std::size_t>(config.eos_token_ids.front());
    if (id < source.tokens.size()) source.eos_token = source.tokens[id];
  }
  const GgufFields templates(header, "tokenizer.");
  source.chat_template = templates.string("chat_template").value_or("");
  for (const std::string& name : string_array(templates, "chat_templates")) {
    const std::optional<std::string> text = templates.string("chat_template." + name);
    if (!text) continue;
    if (name == "default" && source.chat_template.empty()) {
      source.chat_template = *text;
    } else {
      source.named_chat_templates.emplace_back(name, *text);
    }
  }
  if (source.chat_template.empty() && !source.named_chat_templates.empty()) {
    source.chat_template = source.named_chat_templates.front().second;
  }
  return source;
}

TokenizerSource gguf_tokenizer(const GgufHeader& header) {
  const GgufValue* tokens = GgufFields(header, "tokenizer.ggml.").find("tokens");
  ModelConfig config;
  const std::uint64_t count = tokens == nullptr ? 0 : tokens->count;
  config.vocab = static_cast<std::int64_t>(std::clamp<std::uint64_t>(count, 1, kMaxTokens));
  read_special_ids(header, config);
  return gguf_tokenizer(header, config);
}

GenerationDefaults gguf_generation(const GgufHeader& header) {
  const GgufFields fields(header, "general.sampling.");
  GenerationDefaults defaults;
  defaults.temperature = fields.number("temp", 0.0, 1e6);
  defaults.top_p = fields.number("top_p", 0.0, 1.0);
  defaults.min_p = fields.number("min_p", 0.0, 1.0);
  defaults.top_k = fields.integer("top_k", -1, kMaxVocab);
  return defaults;
}

}  // namespace quern::checkpoint
