// Facts of every model under tests/data/models in both forms of config.json, and refusals.
#include "checkpoint/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/json.h"
#include "checkpoint/mapped_file.h"

namespace quern::checkpoint {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

struct Expected {
  const char* folder;
  const char* architecture;
  std::int64_t hidden, layers, heads, kv_heads, head_dim, v_head_dim, inter, context, rope_dim;
  bool tied, encoder_decoder;
  std::int64_t window, experts, experts_per_token;
};

constexpr Expected kModels[] = {
    {"bart", "BartForConditionalGeneration", 64, 2, 4, 4, 16, 16, 128, 256, 0, true, true, 0, 0, 0},
    {"bert_embedding", "BertModel", 64, 2, 4, 4, 16, 16, 128, 256, 0, true, false, 0, 0, 0},
    {"deepseek_v2", "DeepseekV2ForCausalLM", 64, 2, 4, 4, 48, 32, 128, 2560, 16, false, false, 0, 8,
     2},
    {"deepseek_v2_grouped", "DeepseekV2ForCausalLM", 64, 2, 4, 4, 48, 32, 128, 2560, 16, false,
     false, 0, 16, 3},
    {"deepseek_v3", "DeepseekV3ForCausalLM", 64, 2, 4, 4, 48, 32, 128, 2560, 16, false, false, 0,
     16, 4},
    {"deepseek_v3_mtp", "DeepseekV3ForCausalLM", 64, 2, 4, 4, 48, 32, 128, 2560, 16, false, false,
     0, 8, 2},
    {"gemma2", "Gemma2ForCausalLM", 64, 4, 4, 2, 32, 32, 128, 2048, 32, true, false, 32, 0, 0},
    {"gemma3", "Gemma3ForCausalLM", 64, 4, 4, 1, 64, 64, 128, 2048, 64, true, false, 32, 0, 0},
    {"gpt_oss", "GptOssForCausalLM", 64, 2, 4, 2, 32, 32, 64, 2048, 32, false, false, 32, 4, 2},
    {"llama", "LlamaForCausalLM", 128, 2, 8, 2, 16, 16, 128, 2048, 16, true, false, 0, 0, 0},
    {"llama3", "LlamaForCausalLM", 64, 2, 4, 2, 32, 32, 128, 512, 32, false, false, 0, 0, 0},
    {"llama4_text", "Llama4ForCausalLM", 64, 4, 4, 2, 32, 32, 32, 2048, 32, false, false, 0, 4, 1},
    {"llama_embedding", "LlamaModel", 64, 2, 4, 2, 16, 16, 128, 2048, 16, false, false, 0, 0, 0},
    {"llama_k256", "LlamaForCausalLM", 256, 1, 4, 2, 64, 64, 256, 2048, 64, true, false, 0, 0, 0},
    {"marian", "MarianMTModel", 64, 2, 4, 4, 16, 16, 128, 256, 0, true, true, 0, 0, 0},
    {"mistral", "MistralForCausalLM", 64, 2, 4, 1, 32, 32, 128, 2048, 32, false, false, 32, 0, 0},
    {"mixtral", "MixtralForCausalLM", 64, 2, 4, 2, 16, 16, 32, 2048, 16, false, false, 0, 8, 2},
    {"mllama_text", "MllamaForCausalLM", 64, 4, 4, 2, 16, 16, 128, 2048, 16, false, true, 0, 0, 0},
    {"phi3", "Phi3ForCausalLM", 64, 2, 4, 2, 16, 16, 128, 2048, 16, false, false, 0, 0, 0},
    {"qwen2", "Qwen2ForCausalLM", 64, 2, 4, 2, 16, 16, 128, 2048, 16, false, false, 0, 0, 0},
    {"qwen3", "Qwen3ForCausalLM", 64, 2, 2, 1, 128, 128, 128, 2048, 128, true, false, 0, 0, 0},
    {"qwen3_moe", "Qwen3MoeForCausalLM", 64, 3, 4, 2, 32, 32, 128, 2048, 32, false, false, 0, 8, 4},
    {"t5", "T5ForConditionalGeneration", 64, 2, 3, 3, 32, 32, 128, 0, 0, false, true, 0, 0, 0},
    {"whisper", "WhisperForConditionalGeneration", 64, 2, 4, 4, 16, 16, 128, 128, 0, true, true, 0,
     0, 0},
};

ModelConfig load(const std::string& model, const std::string& file) {
  const std::string path = std::string(QUERN_TEST_DATA "/models/") + model + "/" + file;
  return parse_config(read_text_file(path), path);
}

class ConfigOfModel : public testing::TestWithParam<Expected> {};
INSTANTIATE_TEST_SUITE_P(Models, ConfigOfModel, testing::ValuesIn(kModels),
                         [](const auto& model) { return std::string(model.param.folder); });

TEST_P(ConfigOfModel, HasItsFactsInBothForms) {
  const Expected& expected = GetParam();
  for (const char* file : {"config.json", "config.v5.json"}) {
    SCOPED_TRACE(file);
    const ModelConfig config = load(expected.folder, file);
    EXPECT_EQ(config.architecture, expected.architecture);
    EXPECT_EQ(config.hidden, expected.hidden);
    EXPECT_EQ(config.layers, expected.layers);
    EXPECT_EQ(config.heads, expected.heads);
    EXPECT_EQ(config.kv_heads, expected.kv_heads);
    EXPECT_EQ(config.head_dim, expected.head_dim);
    EXPECT_EQ(config.v_head_dim, expected.v_head_dim);
    EXPECT_EQ(config.inter, expected.inter);
    EXPECT_EQ(config.context_length, expected.context);
    EXPECT_EQ(config.rope_dim, expected.rope_dim);
    EXPECT_EQ(config.encoder_decoder, expected.encoder_decoder);
    EXPECT_EQ(config.sliding_window, expected.window);
    EXPECT_EQ(config.experts, expected.experts);
    EXPECT_EQ(config.experts_per_token, expected.experts_per_token);
    EXPECT_EQ(config.vocab, 512);
    EXPECT_EQ(config.dtype, DType::kBF16);
  }
  EXPECT_EQ(load(expected.folder, "config.json").tied_embeddings, expected.tied);
}

TEST_P(ConfigOfModel, IsTheSameInBothForms) {
  const ModelConfig old_form = load(GetParam().folder, "config.json");
  const ModelConfig new_form = load(GetParam().folder, "config.v5.json");
  EXPECT_EQ(old_form.model_type, new_form.model_type);
  EXPECT_EQ(old_form.rms_norm_eps, new_form.rms_norm_eps);
  EXPECT_EQ(old_form.rope_theta, new_form.rope_theta);
  EXPECT_EQ(old_form.rope_interleaved, new_form.rope_interleaved);
  EXPECT_EQ(old_form.rope_scaling.type, new_form.rope_scaling.type);
  EXPECT_EQ(old_form.rope_scaling.factor, new_form.rope_scaling.factor);
  EXPECT_EQ(old_form.rope_scaling.low_freq_factor, new_form.rope_scaling.low_freq_factor);
  EXPECT_EQ(old_form.rope_scaling.high_freq_factor, new_form.rope_scaling.high_freq_factor);
  EXPECT_EQ(old_form.rope_scaling.original_context_length,
            new_form.rope_scaling.original_context_length);
  EXPECT_EQ(old_form.kv_lora_rank, new_form.kv_lora_rank);
  EXPECT_EQ(old_form.q_lora_rank, new_form.q_lora_rank);
  EXPECT_EQ(old_form.qk_nope_head_dim, new_form.qk_nope_head_dim);
  EXPECT_EQ(old_form.qk_rope_head_dim, new_form.qk_rope_head_dim);
  EXPECT_EQ(old_form.attention_soft_cap, new_form.attention_soft_cap);
  EXPECT_EQ(old_form.attention_sinks, new_form.attention_sinks);
  EXPECT_EQ(old_form.activation, new_form.activation);
  EXPECT_EQ(old_form.nextn_layers, new_form.nextn_layers);
  EXPECT_EQ(old_form.expert_layers, new_form.expert_layers);
  EXPECT_EQ(old_form.routing.scores, new_form.routing.scores);
  EXPECT_EQ(old_form.routing.method, new_form.routing.method);
  EXPECT_EQ(old_form.routing.normalize, new_form.routing.normalize);
  EXPECT_EQ(old_form.routing.groups, new_form.routing.groups);
  EXPECT_EQ(old_form.routing.picked_groups, new_form.routing.picked_groups);
  EXPECT_EQ(old_form.routing.scale, new_form.routing.scale);
  // BERT's published form says nothing of them, the newer one says null.
  EXPECT_EQ(old_form.bos_token_id, new_form.bos_token_id);
  EXPECT_EQ(old_form.eos_token_ids, new_form.eos_token_ids);
  // The newer T5 class always ties; the published flag of this variant says otherwise.
  if (std::string(GetParam().folder) != "t5") {
    EXPECT_EQ(old_form.tied_embeddings, new_form.tied_embeddings);
  }
}

TEST(Config, ReadsWhatOnlySomeModelsHave) {
  const ModelConfig deepseek = load("deepseek_v3_mtp", "config.json");
  EXPECT_EQ(deepseek.kv_lora_rank, 64);
  EXPECT_EQ(deepseek.q_lora_rank, 48);
  EXPECT_EQ(deepseek.qk_nope_head_dim, 32);
  EXPECT_EQ(deepseek.qk_rope_head_dim, 16);
  EXPECT_EQ(deepseek.nextn_layers, 1);
  EXPECT_TRUE(deepseek.rope_interleaved);
  EXPECT_EQ(deepseek.rope_scaling.type, "yarn");
  EXPECT_EQ(load("deepseek_v2", "config.json").q_lora_rank, 0);
  EXPECT_EQ(load("gemma2", "config.json").attention_soft_cap, 5.0);
  EXPECT_TRUE(load("gpt_oss", "config.json").attention_sinks);
  EXPECT_FALSE(load("llama", "config.json").attention_sinks);

  const ModelConfig v3 = load("deepseek_v3", "config.json");
  EXPECT_THAT(v3.expert_layers, ElementsAre(false, true));
  EXPECT_EQ(v3.routing.scores, "sigmoid");
  EXPECT_EQ(v3.routing.method, "noaux_tc");
  EXPECT_TRUE(v3.routing.normalize);
  EXPECT_EQ(v3.routing.groups, 4);
  EXPECT_EQ(v3.routing.picked_groups, 2);
  EXPECT_EQ(v3.routing.scale, 2.5);
  EXPECT_EQ(load("deepseek_v2_grouped", "config.json").routing.method, "group_limited_greedy");
  EXPECT_THAT(load("qwen3_moe", "config.json").expert_layers, ElementsAre(true, false, true));
  EXPECT_TRUE(load("mixtral", "config.json").routing.normalize);

  const ModelConfig llama3 = load("llama3", "config.json");
  EXPECT_EQ(llama3.rope_scaling.type, "llama3");
  EXPECT_EQ(llama3.rope_scaling.factor, 8.0);
  EXPECT_EQ(llama3.rope_scaling.low_freq_factor, 1.0);
  EXPECT_EQ(llama3.rope_scaling.high_freq_factor, 4.0);
  EXPECT_EQ(llama3.rope_scaling.original_context_length, 64);
  EXPECT_EQ(llama3.rope_theta, 500000.0);
  EXPECT_THAT(llama3.eos_token_ids, ElementsAre(2, 0));

  const ModelConfig gemma3 = load("gemma3", "config.v5.json");
  EXPECT_EQ(gemma3.rope_theta, 1e6);
  EXPECT_EQ(gemma3.rope_scaling.type, "linear");
}

// A llama config with `change` put before its last brace.
std::string llama(const std::string& change = "") {
  return R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
      "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
      "vocab_size": 261, "max_position_embeddings": 512)" +
         (change.empty() ? "" : ", " + change) + "}";
}

TEST(Config, TakesDefaultsOfTheClass) {
  const ModelConfig config = parse_config(llama(), "c.json");
  EXPECT_EQ(config.kv_heads, 4);
  EXPECT_EQ(config.head_dim, 16);
  EXPECT_EQ(config.rms_norm_eps, 1e-6);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_EQ(config.rope_theta, 10000.0);
  EXPECT_EQ(parse_config(llama(R"("head_dim": null)"), "c.json").head_dim, 16);
  // Absent and null differ: this class has a window unless told otherwise.
  const auto mistral = [](const std::string& change) {
    return parse_config(R"({"model_type": "mistral", "hidden_size": 64, "num_hidden_layers": 1,
        "num_attention_heads": 4, "vocab_size": 9)" +
                            change + "}",
                        "c.json");
  };
  EXPECT_EQ(mistral("").sliding_window, 4096);
  EXPECT_EQ(mistral(R"(, "sliding_window": null)").sliding_window, 0);
  EXPECT_EQ(mistral("").architecture, "MistralForCausalLM");
}

TEST(Config, ReadsNestedTextConfig) {
  const ModelConfig config = parse_config(R"({
      "architectures": ["MllamaForConditionalGeneration"], "model_type": "mllama",
      "torch_dtype": "float16", "tie_word_embeddings": true, "hidden_size": 9,
      "text_config": {"model_type": "mllama_text_model", "hidden_size": 64,
        "num_hidden_layers": 4, "num_attention_heads": 4, "num_key_value_heads": 2,
        "vocab_size": 100, "tie_word_embeddings": false, "eos_token_id": [7, 8],
        "rope_theta": 500000.0}})",
                                          "c.json");
  EXPECT_EQ(config.model_type, "mllama");
  EXPECT_EQ(config.hidden, 64);
  EXPECT_TRUE(config.encoder_decoder);
  EXPECT_EQ(config.dtype, DType::kF16);
  EXPECT_FALSE(config.tied_embeddings);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(7, 8));

  const ModelConfig gemma = parse_config(R"({
      "architectures": ["Gemma3ForConditionalGeneration"], "model_type": "gemma3",
      "eos_token_id": [1, 106], "text_config": {"model_type": "gemma3_text", "hidden_size": 2560,
        "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024,
        "rope_scaling": {"factor": 8.0, "rope_type": "linear"}}})",
                                         "c.json");
  EXPECT_EQ(gemma.heads, 8);
  EXPECT_EQ(gemma.kv_heads, 4);
  EXPECT_EQ(gemma.head_dim, 256);
  EXPECT_EQ(gemma.sliding_window, 1024);
  EXPECT_FALSE(gemma.encoder_decoder);
  EXPECT_TRUE(gemma.tied_embeddings);
}

TEST(Config, ReadsWindows) {
  const auto window = [](const std::string& change) {
    std::string text = llama(change);
    return parse_config(text, "c.json").sliding_window;
  };
  EXPECT_EQ(window(R"("sliding_window": 32)"), 32);
  EXPECT_EQ(window(R"("sliding_window": 32, "use_sliding_window": false)"), 0);
  EXPECT_EQ(window(R"("sliding_window": 32, "layer_types": ["full_attention", "full_attention"])"),
            0);
  EXPECT_EQ(
      window(R"("sliding_window": 32, "layer_types": ["full_attention", "sliding_attention"])"),
      32);
}

TEST(Config, ReadsBothSpellingsOfRopeScaling) {
  for (const char* word : {"type", "rope_type"}) {
    const ModelConfig config = parse_config(
        llama(std::string(R"("rope_scaling": {")") + word + R"(": "linear", "factor": 2})"), "c");
    EXPECT_EQ(config.rope_scaling.type, "linear");
    EXPECT_EQ(config.rope_scaling.factor, 2.0);
  }
  const ModelConfig odd = parse_config(llama(R"("rope_scaling": {"type": "nosuch"})"), "c");
  EXPECT_EQ(odd.rope_scaling.type, "nosuch");
  const ModelConfig yarn = parse_config(llama(R"("rope_scaling": {"type": "yarn", "factor": 4,
                                "original_max_position_embeddings": 128.0})"),
                                        "c");
  EXPECT_EQ(yarn.rope_scaling.original_context_length, 128);
}

// The error of `text`, which must have one.
Error refusal(const std::string& text) {
  try {
    parse_config(text, "c.json");
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "not refused: " << text;
  return Error(errors::kInternalError);
}

TEST(Config, RefusesValuesOutOfRange) {
  const struct {
    const char *change, *field;
  } cases[] = {
      {R"("num_attention_heads": 0)", "num_attention_heads"},
      {R"("num_attention_heads": 3)", "num_attention_heads"},
      {R"("num_attention_heads": -4)", "num_attention_heads"},
      {R"("num_hidden_layers": 100000)", "num_hidden_layers"},
      {R"("num_hidden_layers": 2.0)", "num_hidden_layers"},
      {R"("num_hidden_layers": "2")", "num_hidden_layers"},
      {R"("vocab_size": 1000000000000)", "vocab_size"},
      {R"("vocab_size": 18446744073709551615)", "vocab_size"},
      {R"("hidden_size": 1000000000)", "hidden_size"},
      {R"("num_key_value_heads": 3)", "num_key_value_heads"},
      {R"("num_key_value_heads": 0)", "num_key_value_heads"},
      {R"("head_dim": 17)", "rope dimension"},
      {R"("head_dim": 1000000)", "head_dim"},
      {R"("eos_token_id": 99999)", "eos_token_id"},
      {R"("eos_token_id": -1)", "eos_token_id"},
      {R"("eos_token_id": [1, "x"])", "eos_token_id"},
      {R"("bos_token_id": 261)", "bos_token_id"},
      {R"("tie_word_embeddings": 1)", "tie_word_embeddings"},
      {R"("rms_norm_eps": "small")", "rms_norm_eps"},
      {R"("rms_norm_eps": -1)", "rms_norm_eps"},
      {R"("rope_theta": 0)", "rope_theta"},
      {R"("rope_scaling": "linear")", "rope_scaling"},
      {R"("rope_scaling": {"type": "linear", "factor": 0})", "rope_scaling.factor"},
      {R"("torch_dtype": "float8")", "torch_dtype"},
      {R"("layer_types": [1])", "layer_types"},
      {R"("architectures": "LlamaForCausalLM")", "architectures"},
      {R"("sliding_window": -5)", "sliding_window"},
  };
  for (const auto& [change, field] : cases) {
    SCOPED_TRACE(change);
    // Of keys that stand twice, the last counts.
    const Error error = refusal(llama(change));
    EXPECT_EQ(error.id(), errors::kConfigFieldInvalid) << error.what();
    EXPECT_EQ(error.field("field"), field) << error.what();
    EXPECT_EQ(error.field("file"), "c.json");
  }
}

TEST(Config, NamesMissingFields) {
  for (const char* name : {"hidden_size", "num_hidden_layers", "num_attention_heads", "vocab_size",
                           "intermediate_size", "max_position_embeddings"}) {
    nlohmann::json object = nlohmann::json::parse(llama());
    object.erase(name);
    const Error error = refusal(object.dump());
    EXPECT_EQ(error.id(), errors::kConfigFieldMissing) << name;
    EXPECT_EQ(error.field("field"), name);
    EXPECT_EQ(error.field("architecture"), "LlamaForCausalLM");
  }
  EXPECT_EQ(refusal("{}").field("field"), "architectures");
  EXPECT_EQ(refusal(llama(R"("rope_scaling": {"type": "yarn"})")).field("field"),
            "rope_scaling.factor");
  EXPECT_EQ(refusal(llama(R"("rope_scaling": {"factor": 2})")).field("field"),
            "rope_scaling.rope_type");
  EXPECT_EQ(refusal(llama(R"("rope_scaling": {"type": "llama3", "factor": 8})")).field("field"),
            "rope_scaling.low_freq_factor");
  EXPECT_EQ(refusal(llama(R"("kv_lora_rank": 64)")).field("field"), "qk_nope_head_dim");
}

TEST(Config, RefusesWhatIsNotJson) {
  for (const std::string& text :
       {std::string(""), std::string("{"), std::string("[1]"), std::string("null"),
        llama() + std::string(1, '\0') + "x", std::string("{\"a\": \"\xFF\"}"),
        std::string("{\"a\": 1e999}"), std::string(100000, '['),
        "{\"a\":" + std::string(65, '[') + std::string(65, ']') + "}"}) {
    EXPECT_EQ(refusal(text).id(), errors::kCheckpointJsonInvalid) << text.substr(0, 40);
  }
}

TEST(GenerationConfig, AddsEndIdsAndDefaults) {
  ModelConfig config = parse_config(llama(R"("eos_token_id": 3)"), "c.json");
  const GenerationDefaults defaults = parse_generation_config(
      R"({"eos_token_id": [3, 1], "temperature": 0.2, "top_p": 0.9, "top_k": 40})", "g.json",
      config);
  EXPECT_THAT(config.eos_token_ids, ElementsAre(3, 1));
  EXPECT_EQ(defaults.temperature, 0.2);
  EXPECT_EQ(defaults.top_p, 0.9);
  EXPECT_EQ(defaults.top_k, 40);
  EXPECT_FALSE(defaults.min_p.has_value());
  for (const char* text : {R"({"eos_token_id": 261})", R"({"top_p": 2})", R"({"top_k": "x"})"}) {
    EXPECT_THROW(parse_generation_config(text, "g.json", config), Error) << text;
  }
}

}  // namespace
}  // namespace quern::checkpoint
