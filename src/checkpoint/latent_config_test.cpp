// Facts of models of latent attention and of YaRN in config.json and in GGUF metadata, and what is
// refused of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"
#include "checkpoint/gguf_config.h"
#include "checkpoint/test_gguf.h"

namespace quern::checkpoint {
namespace {

using nlohmann::json;
using testing::ElementsAre;

const std::string kModels = QUERN_TEST_DATA "/models/";

json deepseek() {
  return json::parse(R"({"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3",
      "hidden_size": 64, "intermediate_size": 128, "moe_intermediate_size": 32,
      "num_hidden_layers": 3, "num_attention_heads": 4, "vocab_size": 512,
      "max_position_embeddings": 256, "kv_lora_rank": 64, "q_lora_rank": 48,
      "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "v_head_dim": 32, "n_routed_experts": 16,
      "num_experts_per_tok": 4, "n_group": 4, "topk_group": 2, "first_k_dense_replace": 1})");
}

ModelConfig parse(const json& object) { return parse_config(object.dump(), "c.json"); }

Error refusal(const json& object) {
  try {
    parse(object);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "not refused: " << object;
  return Error(errors::kInternalError);
}

json with(const std::string& field, const json& value) {
  json object = deepseek();
  object[field] = value;
  return object;
}

TEST(LatentConfig, NamesWhatIsMissing) {
  for (const char* field : {"kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim"}) {
    json object = deepseek();
    object.erase(field);
    const Error error = refusal(object);
    EXPECT_EQ(error.id(), errors::kConfigFieldMissing) << field;
    EXPECT_EQ(error.field("field"), field);
    EXPECT_EQ(error.field("architecture"), "DeepseekV3ForCausalLM");
  }
  EXPECT_EQ(refusal(with("kv_lora_rank", nullptr)).field("field"), "kv_lora_rank");
  EXPECT_EQ(refusal(with("kv_lora_rank", 0)).field("field"), "kv_lora_rank");
}

TEST(LatentConfig, NamesWhatDoesNotFit) {
  const std::pair<const char*, json> cases[] = {
      {"qk_rope_head_dim", 15}, {"qk_rope_head_dim", 0}, {"num_experts_per_tok", 17},
      {"n_group", 3},           {"n_group", 0},          {"topk_group", 5},
      {"topk_group", 0},        {"kv_lora_rank", -1}};
  for (const auto& [field, value] : cases) {
    const Error error = refusal(with(field, value));
    EXPECT_EQ(error.id(), errors::kConfigFieldInvalid) << field << value;
    EXPECT_EQ(error.field("field"), field) << value;
    EXPECT_EQ(error.field("file"), "c.json");
  }
}

TEST(LatentConfig, TakesDefaultsOfTheOtherNames) {
  for (const char* type : {"deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe_lite"}) {
    EXPECT_TRUE(parse(with("model_type", type)).rope_interleaved) << type;
  }
  EXPECT_FALSE(parse(with("rope_interleave", false)).rope_interleaved);
  json glm = with("model_type", "glm4_moe_lite");
  glm["architectures"] = {"Glm4MoeLiteForCausalLM"};
  glm.erase("first_k_dense_replace");
  EXPECT_THAT(parse(glm).expert_layers, ElementsAre(false, true, true));
  EXPECT_EQ(parse(glm).routing.method, "noaux_tc");
  glm["mlp_layer_types"] = {"sparse", "dense", "sparse"};
  EXPECT_THAT(parse(glm).expert_layers, ElementsAre(true, false, true));
  for (const json& bad :
       {json("sparse"), json::array({"sparse", "dense"}), json::array({"sparse", "dense", 1})}) {
    glm["mlp_layer_types"] = bad;
    EXPECT_EQ(refusal(glm).field("field"), "mlp_layer_types") << bad;
  }
  EXPECT_EQ(parse(with("num_mtp_layers", 1)).nextn_layers, 1);
}

TEST(Fp8Config, ReadsTheBlockSizes) {
  const ModelConfig config = parse(
      with("quantization_config", {{"quant_method", "fp8"}, {"weight_block_size", {128, 64}}}));
  EXPECT_EQ(config.quantization.method, "fp8");
  EXPECT_EQ(config.quantization.block_rows, 128);
  EXPECT_EQ(config.quantization.block_columns, 64);
}

RopeScaling scaling_of(const json& scaling) {
  return parse(with("rope_scaling", scaling)).rope_scaling;
}

TEST(YarnConfig, ReadsItsFields) {
  const RopeScaling plain =
      scaling_of({{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64.0}});
  EXPECT_EQ(plain.beta_fast, 32);
  EXPECT_EQ(plain.beta_slow, 1);
  EXPECT_EQ(plain.attention_factor, 0);
  EXPECT_EQ(plain.mscale, 0);
  EXPECT_EQ(plain.original_context_length, 64);
  EXPECT_TRUE(plain.truncate);
  const RopeScaling full = scaling_of({{"rope_type", "yarn"},
                                       {"factor", 4},
                                       {"original_max_position_embeddings", 64},
                                       {"beta_fast", 16},
                                       {"beta_slow", 2},
                                       {"attention_factor", 1.5},
                                       {"mscale", 0.707},
                                       {"mscale_all_dim", 0.5},
                                       {"truncate", false}});
  EXPECT_EQ(full.beta_fast, 16);
  EXPECT_EQ(full.beta_slow, 2);
  EXPECT_EQ(full.attention_factor, 1.5);
  EXPECT_EQ(full.mscale, 0.707);
  EXPECT_EQ(full.mscale_all_dim, 0.5);
  EXPECT_FALSE(full.truncate);
  // What is null or zero counts as left out, as it does for the class.
  const RopeScaling null = scaling_of({{"type", "yarn"},
                                       {"factor", 4},
                                       {"original_max_position_embeddings", 64},
                                       {"beta_fast", 0},
                                       {"mscale", nullptr},
                                       {"attention_factor", nullptr}});
  EXPECT_EQ(null.beta_fast, 32);
  EXPECT_EQ(null.mscale, 0);
}

TEST(YarnConfig, RefusesWhatIsIncompleteOrNoNumber) {
  EXPECT_EQ(refusal(with("rope_scaling", {{"type", "yarn"}, {"factor", 4}})).field("field"),
            "rope_scaling.original_max_position_embeddings");
  for (const char* field : {"beta_fast", "beta_slow", "attention_factor", "mscale",
                            "mscale_all_dim", "original_max_position_embeddings"}) {
    json scaling = {{"type", "yarn"}, {"factor", 4}, {"original_max_position_embeddings", 64}};
    scaling[field] = "1";
    const Error error = refusal(with("rope_scaling", scaling));
    EXPECT_EQ(error.id(), errors::kConfigFieldInvalid) << field;
    EXPECT_EQ(error.field("field"), std::string("rope_scaling.") + field);
    scaling[field] = -1;
    EXPECT_EQ(refusal(with("rope_scaling", scaling)).id(), errors::kConfigFieldInvalid) << field;
  }
}

// A file of latent attention in the newer layout, where key_length is the cached row's.
GgufWriter gguf(const std::string& without = "") {
  GgufWriter writer;
  writer.text("general.architecture", "deepseek2");
  const std::pair<const char*, std::uint32_t> counts[] = {{"context_length", 256},
                                                          {"embedding_length", 64},
                                                          {"block_count", 3},
                                                          {"feed_forward_length", 128},
                                                          {"vocab_size", 8},
                                                          {"attention.head_count", 4},
                                                          {"attention.head_count_kv", 1},
                                                          {"attention.q_lora_rank", 48},
                                                          {"attention.kv_lora_rank", 64},
                                                          {"attention.key_length", 80},
                                                          {"attention.value_length", 64},
                                                          {"attention.key_length_mla", 48},
                                                          {"attention.value_length_mla", 32},
                                                          {"rope.dimension_count", 16},
                                                          {"expert_count", 16},
                                                          {"expert_used_count", 4},
                                                          {"expert_shared_count", 2},
                                                          {"expert_feed_forward_length", 32},
                                                          {"expert_gating_func", 2},
                                                          {"expert_group_count", 4},
                                                          {"expert_group_used_count", 2},
                                                          {"leading_dense_block_count", 1}};
  for (const auto& [key, count] : counts) {
    if (key != without) writer.u32(std::string("deepseek2.") + key, count);
  }
  return writer;
}

ModelConfig read(const GgufWriter& writer) {
  const std::string bytes = writer.bytes();
  return gguf_config(parse_gguf(std::as_bytes(std::span(bytes)), "f.gguf"));
}

Error refusal(const GgufWriter& writer) {
  try {
    read(writer);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "not refused";
  return Error(errors::kInternalError);
}

TEST(LatentGguf, ReadsBothLayouts) {
  GgufWriter older;
  for (const bool newer : {true, false}) {
    GgufWriter writer = gguf();
    if (!newer) {
      writer = gguf("attention.head_count_kv");
      writer.u32("deepseek2.attention.head_count_kv", 4);
    }
    const ModelConfig config = read(writer);
    EXPECT_EQ(config.architecture, "DeepseekV3ForCausalLM");
    EXPECT_EQ(config.kv_lora_rank, 64);
    EXPECT_EQ(config.q_lora_rank, 48);
    EXPECT_EQ(config.head_dim, 48);
    EXPECT_EQ(config.v_head_dim, 32);
    EXPECT_EQ(config.qk_nope_head_dim, 32);
    EXPECT_EQ(config.qk_rope_head_dim, 16);
    EXPECT_EQ(config.kv_heads, 4);
    EXPECT_TRUE(config.rope_interleaved);
    EXPECT_THAT(config.expert_layers, ElementsAre(false, true, true));
    EXPECT_EQ(config.shared_inter, 64);
  }
}

TEST(LatentGguf, TakesTheHeadsOwnLengthsWhereOnlyTheyStand) {
  GgufWriter writer = gguf("attention.head_count_kv");
  writer.u32("deepseek2.attention.head_count_kv", 4);
  std::string keys = writer.keys;
  for (const std::string name : {"key_length_mla", "value_length_mla"}) {
    const std::string entry = gguf_string("deepseek2.attention." + name) + raw<std::uint32_t>(4);
    const size_t at = keys.find(entry);
    ASSERT_NE(at, std::string::npos);
    keys.erase(at, entry.size() + 4);
    --writer.n_keys;
  }
  writer.keys = keys;
  EXPECT_EQ(read(writer).head_dim, 80);
  EXPECT_EQ(read(writer).v_head_dim, 64);
}

TEST(LatentGguf, NamesTheKeysThatAreMissing) {
  for (const std::string key : {"attention.kv_lora_rank", "attention.key_length_mla",
                                "attention.value_length_mla", "rope.dimension_count"}) {
    const Error error = refusal(gguf(key));
    EXPECT_EQ(error.id(), errors::kConfigFieldMissing) << key;
    EXPECT_EQ(error.field("field"), "deepseek2." + key);
    EXPECT_EQ(error.field("file"), "f.gguf");
  }
}

TEST(LatentGguf, NamesWhatDoesNotFit) {
  const std::tuple<const char*, std::uint32_t, const char*> cases[] = {
      {"rope.dimension_count", 15, "qk_rope_head_dim"},
      {"rope.dimension_count", 48, "deepseek2.rope.dimension_count"},
      {"expert_used_count", 17, "deepseek2.expert_used_count"},
      {"expert_group_count", 3, "n_group"},
      {"expert_group_used_count", 5, "topk_group"}};
  for (const auto& [key, value, named] : cases) {
    GgufWriter writer = gguf(key);
    writer.u32(std::string("deepseek2.") + key, value);
    const Error error = refusal(writer);
    EXPECT_EQ(error.id(), errors::kConfigFieldInvalid) << key;
    EXPECT_EQ(error.field("field").substr(0, std::string(named).size()), named);
  }
}

TEST(LatentGguf, CountsPredictionLayersApart) {
  GgufWriter writer = gguf();
  writer.u32("deepseek2.nextn_predict_layers", 1);
  const ModelConfig config = read(writer);
  EXPECT_EQ(config.layers, 2);
  EXPECT_EQ(config.nextn_layers, 1);
  EXPECT_THAT(config.expert_layers, ElementsAre(false, true));
  GgufWriter all = gguf();
  all.u32("deepseek2.nextn_predict_layers", 3);
  EXPECT_EQ(refusal(all).id(), errors::kConfigFieldInvalid);
}

TEST(YarnGguf, TellsTheSameAsTheFolder) {
  const RopeScaling file =
      read_metadata(kModels + "deepseek_v2/gguf/deepseek_v2-F32.gguf").config.rope_scaling;
  const RopeScaling folder = read_metadata(kModels + "deepseek_v2").config.rope_scaling;
  EXPECT_EQ(file.factor, folder.factor);
  EXPECT_EQ(file.original_context_length, folder.original_context_length);
  EXPECT_EQ(file.beta_fast, folder.beta_fast);
  EXPECT_EQ(file.beta_slow, folder.beta_slow);
  EXPECT_NEAR(file.mscale, folder.mscale, 1e-6);
  EXPECT_NEAR(file.mscale_all_dim, folder.mscale_all_dim, 1e-6);
  EXPECT_EQ(file.attention_factor, folder.attention_factor);
}

TEST(YarnGguf, ReadsItsKeysAndRefusesOthers) {
  const auto yarn = [](const std::string& without = "") {
    GgufWriter writer = gguf();
    writer.text("deepseek2.rope.scaling.type", "yarn");
    if (without != "factor") writer.f32("deepseek2.rope.scaling.factor", 4);
    if (without != "original") {
      writer.u32("deepseek2.rope.scaling.original_context_length", 64);
    }
    return writer;
  };
  GgufWriter writer = yarn();
  writer.f32("deepseek2.rope.scaling.yarn_beta_fast", 16);
  writer.f32("deepseek2.rope.scaling.yarn_beta_slow", 2);
  writer.f32("deepseek2.rope.scaling.yarn_attn_factor", 1.5);
  writer.f32("deepseek2.rope.scaling.yarn_ext_factor", 1);
  const RopeScaling scaling = read(writer).rope_scaling;
  EXPECT_EQ(scaling.beta_fast, 16);
  EXPECT_EQ(scaling.beta_slow, 2);
  EXPECT_EQ(scaling.attention_factor, 1.5);
  EXPECT_EQ(scaling.mscale_all_dim, 0);
  EXPECT_EQ(refusal(yarn("factor")).field("field"), "deepseek2.rope.scaling.factor");
  EXPECT_EQ(refusal(yarn("original")).field("field"),
            "deepseek2.rope.scaling.original_context_length");
  GgufWriter extrapolated = yarn();
  extrapolated.f32("deepseek2.rope.scaling.yarn_ext_factor", 0.5);
  EXPECT_EQ(refusal(extrapolated).id(), errors::kConfigFieldInvalid);
}

}  // namespace
}  // namespace quern::checkpoint
