#include "checkpoint/config_defaults.h"

#include <algorithm>

namespace quern::checkpoint {
namespace {

struct ClassDefaults {
  std::string_view model_type, architecture, fields;
};

// Only fields that published checkpoints are known to leave out, and head ties: most classes built
// on a shared base tie the head to the embedding unless told otherwise, the decoder-only ones do
// not.
constexpr ClassDefaults kClasses[] = {
    {"llama", "LlamaForCausalLM", R"({"rms_norm_eps": 1e-6})"},
    {"mistral", "MistralForCausalLM", R"({"rms_norm_eps": 1e-6, "sliding_window": 4096})"},
    {"mixtral", "MixtralForCausalLM", R"({"rope_theta": 1e6, "num_experts_per_tok": 2})"},
    {"qwen2", "Qwen2ForCausalLM", R"({"rms_norm_eps": 1e-6, "use_sliding_window": false})"},
    {"qwen2_moe", "Qwen2MoeForCausalLM", R"({"rms_norm_eps": 1e-6, "use_sliding_window": false})"},
    {"qwen3", "Qwen3ForCausalLM",
     R"({"rms_norm_eps": 1e-6, "use_sliding_window": false, "head_dim": 128})"},
    {"qwen3_moe", "Qwen3MoeForCausalLM", R"({"rms_norm_eps": 1e-6, "use_sliding_window": false})"},
    {"gemma", "GemmaForCausalLM",
     R"({"rms_norm_eps": 1e-6, "head_dim": 256, "tie_word_embeddings": true})"},
    {"gemma2", "Gemma2ForCausalLM",
     R"({"rms_norm_eps": 1e-6, "head_dim": 256, "sliding_window": 4096,
         "attn_logit_softcapping": 50.0, "tie_word_embeddings": true})"},
    {"gemma3_text", "Gemma3ForCausalLM",
     R"({"rms_norm_eps": 1e-6, "num_attention_heads": 8, "num_key_value_heads": 4,
         "head_dim": 256, "vocab_size": 262208, "max_position_embeddings": 131072,
         "sliding_window": 4096, "rope_theta": 1e6, "tie_word_embeddings": true})"},
    {"gpt_oss", "GptOssForCausalLM",
     R"({"head_dim": 64, "sliding_window": 128, "rope_theta": 150000.0})"},
    {"deepseek_v2", "DeepseekV2ForCausalLM", R"({"rms_norm_eps": 1e-6, "rope_interleave": true})"},
    {"deepseek_v3", "DeepseekV3ForCausalLM", R"({"rms_norm_eps": 1e-6, "rope_interleave": true})"},
    {"kimi_k2", "DeepseekV3ForCausalLM", R"({"rms_norm_eps": 1e-6, "rope_interleave": true})"},
    {"glm4_moe_lite", "Glm4MoeLiteForCausalLM",
     R"({"rope_interleave": true, "first_k_dense_replace": 1})"},
    {"phi3", "Phi3ForCausalLM", "{}"},
    {"bart", "BartForConditionalGeneration", R"({"tie_word_embeddings": true})"},
    {"mbart", "MBartForConditionalGeneration", R"({"tie_word_embeddings": true})"},
    {"marian", "MarianMTModel", R"({"tie_word_embeddings": true})"},
    {"t5", "T5ForConditionalGeneration",
     R"({"layer_norm_epsilon": 1e-6, "tie_word_embeddings": true})"},
    {"mt5", "MT5ForConditionalGeneration", R"({"layer_norm_epsilon": 1e-6})"},
    {"umt5", "UMT5ForConditionalGeneration", R"({"layer_norm_epsilon": 1e-6})"},
    {"whisper", "WhisperForConditionalGeneration", R"({"tie_word_embeddings": true})"},
    {"mllama", "MllamaForConditionalGeneration", "{}"},
    {"bert", "BertModel", R"({"tie_word_embeddings": true})"},
    {"gpt2", "GPT2LMHeadModel", R"({"tie_word_embeddings": true})"},
    {"opt", "OPTForCausalLM", R"({"tie_word_embeddings": true})"},
    {"bloom", "BloomForCausalLM", R"({"tie_word_embeddings": true})"},
    {"falcon", "FalconForCausalLM",
     R"({"tie_word_embeddings": true, "max_position_embeddings": 2048})"},
    {"minicpm3", "MiniCPM3ForCausalLM", R"({"tie_word_embeddings": true})"},
    {"llama4_text", "Llama4ForCausalLM", R"({"attention_chunk_size": 8192})"},
    {"gemma3", "Gemma3ForConditionalGeneration", R"({"tie_word_embeddings": true})"},
    {"cohere", "CohereForCausalLM", R"({"tie_word_embeddings": true})"},
    {"cohere2", "Cohere2ForCausalLM", R"({"sliding_window": 4096, "tie_word_embeddings": true})"},
};

const ClassDefaults* find_class(std::string_view model_type) {
  const auto* it = std::ranges::find(kClasses, model_type, &ClassDefaults::model_type);
  return it == std::end(kClasses) ? nullptr : it;
}

}  // namespace

nlohmann::json class_defaults(std::string_view model_type) {
  const ClassDefaults* found = find_class(model_type);
  return found == nullptr ? nlohmann::json::object() : nlohmann::json::parse(found->fields);
}

std::string_view default_architecture(std::string_view model_type) {
  const ClassDefaults* found = find_class(model_type);
  return found == nullptr ? model_type : found->architecture;
}

bool is_latent_class(std::string_view architecture) {
  static constexpr std::string_view kClasses[] = {"DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM",
                                                  "Glm4MoeLiteForCausalLM"};
  return std::ranges::find(kClasses, architecture) != std::end(kClasses);
}

bool has_no_rope(std::string_view model_type) {
  static constexpr std::string_view kTypes[] = {
      "bart", "mbart", "marian", "t5", "mt5", "umt5", "bert", "gpt2", "opt", "bloom", "whisper"};
  return std::ranges::find(kTypes, model_type) != std::end(kTypes);
}

}  // namespace quern::checkpoint
