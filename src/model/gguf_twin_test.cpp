// Families in GGUF files: their keys, tensor names and layouts, against the same weights in a
// Hugging Face folder.
#include "model/gguf_twin.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/error.h"
#include "base/errors/model.h"
#include "model/golden_compare.h"

namespace quern::model {
namespace {

using attention::KvType;
using kernels::PackMode;

struct Twin {
  const char *folder, *architecture, *class_name;
  std::int64_t window;    // that the GGUF file does not tell
  double rounding = 0.1;  // mean difference that quantised activations may make
};
constexpr Twin kTwins[] = {
    {"qwen2", "qwen2", "Qwen2ForCausalLM", 0},
    {"qwen3", "qwen3", "Qwen3ForCausalLM", 0},
    {"mistral", "llama", "LlamaForCausalLM", 32},
    {"mixtral", "llama", "MixtralForCausalLM", 0},
    {"deepseek_v2", "deepseek2", "DeepseekV2ForCausalLM", 0},
    {"deepseek_v3", "deepseek2", "DeepseekV3ForCausalLM", 0, 0.2}};  // choices turn

class TwinFile : public testing::TestWithParam<Twin> {
 protected:
  std::string write(const std::string& folder, const std::string& architecture, TwinType type) {
    path_ = testing::TempDir() + "twin-" + folder + ".gguf";
    GgufTwin(kModels + folder, architecture, type).write(path_);
    return path_;
  }
  void TearDown() override { std::filesystem::remove(path_); }
  std::string path_;
};
INSTANTIATE_TEST_SUITE_P(Families, TwinFile, testing::ValuesIn(kTwins),
                         [](const auto& twin) { return std::string(twin.param.folder); });

float most_between(const std::vector<float>& a, const std::vector<float>& b) {
  float most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::fabs(a[i] - b[i]));
  return most;
}

TEST_P(TwinFile, GivesTheSameLogits) {
  const Twin& twin = GetParam();
  const auto ids =
      GoldenArrays(kModels + twin.folder + "/golden.safetensors").as<std::int32_t>("p5.ids");
  TestRunner folder(kModels + twin.folder, "cpu_flash", PackMode::kF32, KvType::kF32);
  const auto expected = folder.append(ids, 0);
  const std::string path = write(twin.folder, twin.architecture, TwinType::kF32);
  EXPECT_EQ(checkpoint::read_metadata(path).config.architecture, twin.class_name);
  TestRunner file(path, "cpu_flash", PackMode::kF32, KvType::kF32,
                  {.change = [&](ModelConfig& config) { config.sliding_window = twin.window; }});
  const auto logits = file.append(ids, 0);
  ASSERT_EQ(logits.size(), expected.size());
  EXPECT_LT(most_between(logits, expected), 2e-4f);
}

// Experts of a quantised file, merged in one tensor, against the same file decoded.
TEST_P(TwinFile, QuantisedKernelsStayNearTheDecodedWeights) {
  const Twin& twin = GetParam();
  const auto ids =
      GoldenArrays(kModels + twin.folder + "/golden.safetensors").as<std::int32_t>("p5.ids");
  const std::string path = write(twin.folder, twin.architecture, TwinType::kQ8_0);
  TestRunner decoded(path, "cpu_flash", PackMode::kF32, KvType::kF32);
  TestRunner kept(path, "cpu_flash", PackMode::kKeep, KvType::kF32);
  const auto expected = decoded.append(ids, 0), logits = kept.append(ids, 0);
  double mean = 0;
  for (size_t i = 0; i < logits.size(); ++i) mean += std::fabs(logits[i] - expected[i]);
  EXPECT_LT(mean / static_cast<double>(logits.size()), twin.rounding);
}

// A GGUF file of this architecture has experts in every layer: the fixture's dense one is missing.
TEST(GgufTwin, NamesTheExpertsThatALayerLacks) {
  const std::string path = testing::TempDir() + "twin-qwen3_moe.gguf";
  GgufTwin(kModels + "qwen3_moe", "qwen3moe", TwinType::kF32).write(path);
  try {
    TestRunner(path, "cpu_flash", PackMode::kF32, KvType::kF32);
    ADD_FAILURE();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kTensorMissing);
    EXPECT_THAT(error.message(), testing::HasSubstr("blk.1.ffn_gate_inp.weight"));
  }
  std::filesystem::remove(path);
}

// Which it is where the configuration says which layers have them.
TEST(GgufTwin, Qwen3MoeGivesTheSameLogits) {
  const std::string path = testing::TempDir() + "twin-qwen3_moe-mixed.gguf";
  GgufTwin(kModels + "qwen3_moe", "qwen3moe", TwinType::kF32).write(path);
  const auto ids =
      GoldenArrays(kModels + "qwen3_moe/golden.safetensors").as<std::int32_t>("p5.ids");
  TestRunner folder(kModels + "qwen3_moe", "cpu_flash", PackMode::kF32, KvType::kF32);
  TestRunner file(path, "cpu_flash", PackMode::kF32, KvType::kF32,
                  {.change = [](ModelConfig& config) {
                    EXPECT_EQ(config.architecture, "Qwen3MoeForCausalLM");
                    config.expert_layers = {true, false, true};
                  }});
  EXPECT_EQ(file.append(ids, 0), folder.append(ids, 0));
  std::filesystem::remove(path);
}

}  // namespace
}  // namespace quern::model
