// The built-in models: every one of them is read, the facts that decide about attention are what
// was published, and a name is looked for in the right order.
#include "checkpoint/known_models.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"
#include "checkpoint/model_name.h"

namespace quern::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

// Sets environment variables for the length of a test.
class Environment {
 public:
  explicit Environment(const Variables& values) {
    for (const char* name :
         {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "HF_HOME", "XDG_CACHE_HOME", "HOME"}) {
      const char* old = std::getenv(name);
      before_[name] = old == nullptr ? std::nullopt : std::optional<std::string>(old);
      unsetenv(name);
    }
    for (const auto& [name, value] : values) setenv(name.c_str(), value.c_str(), 1);
  }
  ~Environment() {
    for (const auto& [name, value] : before_) {
      value ? setenv(name.c_str(), value->c_str(), 1) : unsetenv(name.c_str());
    }
  }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  std::map<std::string, std::optional<std::string>> before_;
};

fs::path scratch() {
  const auto* test = testing::UnitTest::GetInstance()->current_test_info();
  const fs::path folder = fs::path(testing::TempDir()) / "quern_known" / test->name();
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

void write(const fs::path& file, const std::string& text) {
  fs::create_directories(file.parent_path());
  std::ofstream(file) << text;
}

ModelConfig config_of(const std::string& name) {
  const Environment none(Variables{});
  return read_metadata(name).config;
}

ErrorId refusal_of_weights(const Metadata& metadata) {
  try {
    open_weights(metadata);
  } catch (const Error& error) {
    return error.id();
  }
  return ErrorId{};
}

Error refusal(const std::string& name) {
  try {
    read_metadata(name);
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << name << " was found";
  return Error(errors::kModelNotFound);
}

TEST(KnownModels, AreAllReadUnderEachOfTheirNames) {
  const Environment none(Variables{});
  EXPECT_GE(known_model_names().size(), 30u);
  for (const std::string& name : known_model_names()) {
    const KnownModel* model = find_known_model(name);
    ASSERT_NE(model, nullptr) << name;
    for (const std::string& hub : model->hub_names()) {
      EXPECT_EQ(find_known_model(hub), model) << hub;
      EXPECT_EQ(find_known_model(hub.substr(hub.find('/') + 1)), model) << hub;
    }
    const Metadata metadata = read_metadata(name);
    EXPECT_EQ(metadata.config.name, name);
    EXPECT_EQ(metadata.place, "");
    EXPECT_GT(metadata.config.vocab, 0) << name;
    EXPECT_GT(metadata.config.context_length, 0) << name;
  }
}

TEST(KnownModels, AreFoundWhateverTheCase) {
  EXPECT_EQ(find_known_model("deepseek-v3"), find_known_model("deepseek-ai/DeepSeek-V3"));
  EXPECT_NE(find_known_model("DEEPSEEK-AI/DEEPSEEK-V3"), nullptr);
  EXPECT_EQ(find_known_model("someone/DeepSeek-V3"), nullptr);
  EXPECT_EQ(find_known_model(""), nullptr);
  EXPECT_EQ(find_known_model("/"), nullptr);
}

struct Facts {
  const char* name;
  const char* architecture;
  std::int64_t kv_lora_rank, layers, heads, kv_heads, head_dim;
};

class FactsOfModel : public testing::TestWithParam<Facts> {};

TEST_P(FactsOfModel, ArePublishedOnes) {
  const Facts& facts = GetParam();
  const ModelConfig config = config_of(facts.name);
  EXPECT_EQ(config.architecture, facts.architecture);
  EXPECT_EQ(config.kv_lora_rank, facts.kv_lora_rank);
  EXPECT_EQ(config.layers, facts.layers);
  EXPECT_EQ(config.heads, facts.heads);
  EXPECT_EQ(config.kv_heads, facts.kv_heads);
  EXPECT_EQ(config.head_dim, facts.head_dim);
}

INSTANTIATE_TEST_SUITE_P(
    Models, FactsOfModel,
    testing::Values(Facts{"DeepSeek-V2", "DeepseekV2ForCausalLM", 512, 60, 128, 128, 192},
                    Facts{"DeepSeek-V2-Lite", "DeepseekV2ForCausalLM", 512, 27, 16, 16, 192},
                    Facts{"DeepSeek-V3", "DeepseekV3ForCausalLM", 512, 61, 128, 128, 192},
                    Facts{"DeepSeek-V3.2-Exp", "DeepseekV32ForCausalLM", 512, 61, 128, 128, 192},
                    Facts{"DeepSeek-R1-Distill-Qwen-7B", "Qwen2ForCausalLM", 0, 28, 28, 4, 128},
                    Facts{"DeepSeek-R1-Distill-Llama-8B", "LlamaForCausalLM", 0, 32, 32, 8, 128},
                    Facts{"Kimi-K2-Instruct", "DeepseekV3ForCausalLM", 512, 61, 64, 64, 192},
                    Facts{"GLM-4.7-Flash", "Glm4MoeLiteForCausalLM", 512, 47, 20, 20, 256},
                    Facts{"MiniCPM3-4B", "MiniCPM3ForCausalLM", 256, 62, 40, 40, 96},
                    Facts{"Llama-2-7b-hf", "LlamaForCausalLM", 0, 32, 32, 32, 128},
                    Facts{"Qwen3-30B-A3B", "Qwen3MoeForCausalLM", 0, 48, 32, 4, 128},
                    Facts{"Qwen3-Next-80B-A3B", "Qwen3NextForCausalLM", 0, 48, 16, 2, 256},
                    Facts{"gpt-oss-20b", "GptOssForCausalLM", 0, 24, 64, 8, 64},
                    Facts{"falcon-7b", "FalconForCausalLM", 0, 32, 71, 1, 64},
                    Facts{"gemma-3-27b", "Gemma3ForConditionalGeneration", 0, 62, 32, 16, 128},
                    Facts{"bart-large", "BartModel", 0, 12, 16, 16, 64},
                    Facts{"whisper-large-v3", "WhisperForConditionalGeneration", 0, 32, 20, 20,
                          64}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
      return name;
    });

TEST(KnownModels, TellKindsOfLayers) {
  const auto layers = [](const char* name, LayerKind kind) {
    return config_of(name).layers_of(kind);
  };
  EXPECT_EQ(layers("Qwen3-Next-80B-A3B", LayerKind::kLinear), 36);
  EXPECT_EQ(layers("Qwen3-Next-80B-A3B", LayerKind::kFull), 12);
  EXPECT_EQ(layers("gpt-oss-20b", LayerKind::kWindow), 12);
  EXPECT_EQ(layers("gemma-2-9b", LayerKind::kWindow), 21);
  EXPECT_EQ(layers("gemma-3-27b", LayerKind::kFull), 10);
  EXPECT_EQ(layers("Llama-4-Scout-17B-16E", LayerKind::kChunked), 36);
  EXPECT_EQ(layers("Mistral-7B-v0.1", LayerKind::kWindow), 32);
  EXPECT_EQ(layers("Mistral-7B-v0.3", LayerKind::kFull), 32);
  EXPECT_EQ(layers("Llama-3.2-11B-Vision", LayerKind::kCross), 8);
  EXPECT_EQ(layers("MiMo-V2-Flash", LayerKind::kWindow), 39);
  EXPECT_EQ(layers("DeepSeek-V3", LayerKind::kFull), 61);
}

TEST(KnownModels, TellWhatBackendsAskFor) {
  EXPECT_TRUE(config_of("gpt-oss-120b").attention_sinks);
  EXPECT_TRUE(config_of("MiMo-V2-Flash").attention_sinks);
  EXPECT_EQ(config_of("gemma-2-9b").attention_soft_cap, 50.0);
  EXPECT_EQ(config_of("gemma-3-27b").attention_soft_cap, 0.0);
  EXPECT_EQ(config_of("DeepSeek-V3").nextn_layers, 1);
  EXPECT_EQ(config_of("DeepSeek-V3").moe_layers(), 58);
  EXPECT_EQ(config_of("DeepSeek-V3").quantization.bits, 8);
  EXPECT_EQ(config_of("DeepSeek-V3.2").index_topk, 2048);
  EXPECT_EQ(config_of("Llama-4-Maverick-17B-128E").moe_layers(), 24);
  EXPECT_EQ(config_of("Llama-4-Scout-17B-16E").attention_chunk, 8192);
  EXPECT_TRUE(config_of("t5-base").encoder_decoder);
  EXPECT_TRUE(config_of("Llama-3.2-11B-Vision").encoder_decoder);
  EXPECT_FALSE(config_of("Llama-3.2-11B-Vision").text_only);
}

TEST(ModelName, PrefersAPathToTheBuiltInModel) {
  const Environment none(Variables{});
  const fs::path folder = scratch();
  const fs::path before = fs::current_path();
  write(folder / "DeepSeek-V3/config.json",
        R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
            "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
            "vocab_size": 100, "max_position_embeddings": 128})");
  fs::current_path(folder);
  const Metadata metadata = read_metadata("DeepSeek-V3");
  fs::current_path(before);
  EXPECT_EQ(metadata.config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(metadata.place, "DeepSeek-V3");
}

constexpr const char* kTinyLlama =
    R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
        "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
        "vocab_size": 100, "max_position_embeddings": 128})";

TEST(ModelName, FindsTheSnapshotOfTheMainBranch) {
  const fs::path cache = scratch();
  const fs::path model = cache / "models--someone--tiny";
  write(model / "snapshots/aaaa/config.json", "{}");
  write(model / "snapshots/bbbb/config.json", kTinyLlama);
  write(model / "refs/main", "bbbb\n");
  const Environment set(Variables{{"HF_HUB_CACHE", cache.string()}});
  const Metadata metadata = read_metadata("someone/tiny");
  EXPECT_EQ(metadata.place, (model / "snapshots/bbbb").string());
  EXPECT_EQ(metadata.config.hidden, 64);
  EXPECT_EQ(metadata.config.name, "tiny");
}

// As huggingface_hub lays it out: the files of a snapshot are links to blobs.
TEST(ModelName, OpensTheWeightsOfASnapshotOfLinks) {
  const fs::path home = scratch();
  const fs::path model = home / "hf/hub/models--someone--qwen";
  write(model / "refs/main", "5f0b02c75b57c5855da9ae460ce51323ea669d8a");
  const fs::path snapshot = model / "snapshots/5f0b02c75b57c5855da9ae460ce51323ea669d8a";
  fs::create_directories(snapshot);
  fs::create_directories(model / "blobs");
  for (const auto& file : fs::directory_iterator(QUERN_TEST_DATA "/models/qwen2")) {
    const std::string name = file.path().filename().string();
    fs::copy_file(file.path(), model / "blobs" / ("sum-of-" + name));
    fs::create_symlink("../../blobs/sum-of-" + name, snapshot / name);
  }
  const Environment set(Variables{{"HOME", home.string()}, {"HF_HOME", "~/hf"}});
  const Metadata metadata = read_metadata("someone/qwen");
  EXPECT_EQ(metadata.place, snapshot.string());
  EXPECT_EQ(metadata.config.name, "qwen");
  EXPECT_FALSE(metadata.tokenizer.tokenizer_json.empty());
  const auto weights = open_weights(metadata);
  EXPECT_TRUE(weights->find("model.layers.0.self_attn.q_proj.bias").has_value());
  EXPECT_TRUE(weights->find("model.layers.1.mlp.down_proj.weight").has_value());
  fs::remove(model / "blobs/sum-of-model-00002-of-00002.safetensors");
  EXPECT_EQ(refusal_of_weights(metadata), errors::kCheckpointShardMissing);
}

TEST(ModelName, FindsASnapshotOfAGgufFile) {
  const fs::path cache = scratch();
  const fs::path snapshot = cache / "models--someone--tiny-GGUF/snapshots/only";
  fs::create_directories(snapshot);
  fs::copy_file(QUERN_TEST_DATA "/models/llama/gguf/llama-Q4_0.gguf", snapshot / "q4.gguf");
  const Environment set(Variables{{"HF_HUB_CACHE", cache.string()}});
  const Metadata metadata = read_metadata("someone/tiny-GGUF");
  EXPECT_EQ(metadata.format, Format::kGguf);
  EXPECT_NO_THROW(open_weights(metadata));
  // Several are not guessed between.
  fs::copy_file(snapshot / "q4.gguf", snapshot / "q8.gguf");
  EXPECT_THAT(refusal("someone/tiny-GGUF").message(), HasSubstr("has 2 GGUF models"));
}

// A download that did not get as far as the main branch's snapshot.
TEST(ModelName, TellsHowToFetchWhatTheCacheLacks) {
  const fs::path cache = scratch();
  write(cache / "models--someone--tiny/refs/main", "aaaa");
  write(cache / "models--someone--tiny/snapshots/aaaa/README.md", "");
  const Environment set(Variables{{"HF_HUB_CACHE", cache.string()}});
  const Error error = refusal("someone/tiny");
  EXPECT_EQ(error.id(), errors::kModelNotFound);
  const std::string hint(error.field("hint"));
  EXPECT_THAT(hint, HasSubstr("not in " + (cache / "models--someone--tiny").string()));
  EXPECT_THAT(hint, HasSubstr("`hf download someone/tiny`"));
}

TEST(ModelName, FindsABuiltInModelsOwnFilesByItsShortName) {
  const fs::path cache = scratch();
  write(cache / "hub/models--meta-llama--Llama-3.1-8B/snapshots/only/config.json", kTinyLlama);
  const Environment set(Variables{{"HF_HOME", cache.string()}});
  EXPECT_EQ(read_metadata("llama-3.1-8b").config.hidden, 64);
}

TEST(ModelName, LooksInEveryCacheOnce) {
  const Environment set(Variables{{"HF_HUB_CACHE", "/a"},
                                  {"HUGGINGFACE_HUB_CACHE", "/a"},
                                  {"HF_HOME", "/b"},
                                  {"XDG_CACHE_HOME", "/c"},
                                  {"HOME", "/d"}});
  EXPECT_THAT(hugging_face_caches(),
              ElementsAre("/a", "/b/hub", "/c/huggingface/hub", "/d/.cache/huggingface/hub"));
  EXPECT_THAT(place_of_model("openai/gpt-oss-20b").looked_in,
              Contains("/b/hub/models--openai--gpt-oss-20b"));
}

TEST(ModelName, LeavesTheCacheForNoName) {
  const fs::path cache = scratch();
  write(cache / "models--a--b/refs/main", "../../outside\n");
  write(cache / "outside/config.json", kTinyLlama);
  const Environment set(Variables{{"HF_HUB_CACHE", cache.string()}});
  EXPECT_EQ(refusal("a/b").id(), errors::kModelNotFound);
  EXPECT_EQ(refusal("../outside/nothing").id(), errors::kModelNotFound);
  EXPECT_EQ(refusal("./a").id(), errors::kModelNotFound);
}

TEST(ModelName, TellsOfNearNamesAndPlaces) {
  const Environment set(Variables{{"HF_HOME", "/nowhere"}});
  const Error error = refusal("deepseek-ai/DeepSek-V3");
  EXPECT_EQ(error.id(), errors::kModelNotFound);
  EXPECT_THAT(error.what(), HasSubstr("'deepseek-ai/DeepSek-V3'"));
  EXPECT_THAT(std::string(error.field("hint")), HasSubstr("DeepSeek-V3"));
  EXPECT_THAT(std::string(error.field("hint")),
              HasSubstr("/nowhere/hub/models--deepseek-ai--DeepSek-V3"));
  EXPECT_THAT(nearest_known_models("Lama-3.1-8B", 1), ElementsAre("Llama-3.1-8B"));
  EXPECT_TRUE(nearest_known_models("something-else-entirely", 3).empty());
}

TEST(ModelName, RefusesWeightsThatAreOnlyKnownByName) {
  const Environment set(Variables{{"HF_HOME", "/nowhere"}});
  const Metadata metadata = read_metadata("SmolLM2-135M");
  try {
    open_weights(metadata);
    ADD_FAILURE() << "opened";
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kModelWeightsMissing);
    EXPECT_THAT(std::string(error.field("hint")),
                HasSubstr("/nowhere/hub/models--HuggingFaceTB--SmolLM2-135M"));
  }
}

TEST(ConfigLayers, RefusesFieldsThatDoNotFitTheLayers) {
  const auto field_of = [](const std::string& fields) {
    const std::string text = R"({"architectures": ["AForCausalLM"], "model_type": "gemma2",
        "hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "vocab_size": 10,)" +
                             fields + "}";
    try {
      parse_config(text, "config.json");
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kConfigFieldInvalid);
      return std::string(error.field("field"));
    }
    return std::string();
  };
  EXPECT_EQ(field_of(R"("layer_types": ["full_attention"])"), "layer_types");
  EXPECT_EQ(field_of(R"("layer_types": [1, 2])"), "layer_types");
  EXPECT_EQ(field_of(R"("hybrid_layer_pattern": [0, 2], "model_type": "mimo")"),
            "hybrid_layer_pattern");
  EXPECT_EQ(field_of(R"("sliding_window_pattern": 0, "model_type": "gemma3_text")"),
            "sliding_window_pattern");
  EXPECT_EQ(field_of(R"("cross_attention_layers": [2], "model_type": "mllama")"),
            "cross_attention_layers");
  EXPECT_EQ(field_of(R"("quantization_config": [])"), "quantization_config");
  EXPECT_EQ(field_of(R"("quantization_config": {"quant_method": 4})"),
            "quantization_config.quant_method");
  EXPECT_EQ(field_of(R"("quantization_config": {"quant_method": "awq", "bits": -4})"),
            "quantization_config.bits");
  EXPECT_EQ(field_of(R"("num_experts": 4, "num_experts_per_tok": 9)"), "num_experts_per_tok");
  EXPECT_EQ(field_of(R"("num_experts": 4, "decoder_sparse_step": 0)"), "decoder_sparse_step");
}

TEST(ConfigLayers, CountsBitsOfGroupedWeights) {
  const ModelConfig config = parse_config(
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
          "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
          "vocab_size": 100, "max_position_embeddings": 128,
          "quantization_config": {"quant_method": "awq", "bits": 4, "group_size": 128}})",
      "config.json");
  EXPECT_EQ(config.quantization.method, "awq");
  EXPECT_DOUBLE_EQ(config.quantization.bits, 4 + 20.0 / 128);
}

}  // namespace
}  // namespace quern::checkpoint
