// The llama family against the golden outputs of the model authors' own implementation.
#include <gtest/gtest.h>

#include <cstring>

#include "base/error.h"
#include "base/errors/model.h"
#include "model/golden_compare.h"

namespace quern::model {
namespace {

using attention::KvType;
using kernels::PackMode;

TEST(Llama, Float32MeetsTheGoldensOnBothBackends) {
  for (const std::string name : {"llama", "llama3"}) {
    const GoldenArrays golden(kModels + name + "/golden.safetensors");
    for (const std::string backend : {"torch_native", "cpu_flash"}) {
      TestRunner runner(kModels + name, backend, PackMode::kF32, KvType::kF32);
      const auto all = compare_all(runner, golden, "", 4e-3f);
      expect_exact(all, name + " " + backend);
      EXPECT_EQ(all.equal, all.steps) << name << " " << backend;
    }
  }
}

TEST(Llama, Float32MeetsTheGoldenOfEveryGgufType) {
  for (const std::string model : {"llama", "llama_k256"}) {
    const GoldenArrays golden(kModels + model + "/gguf/golden.safetensors");
    for (const std::string type : {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1",
                                   "Q6_K", "Q5_K", "Q4_K_M", "Q3_K"}) {
      if (!golden.has(type + ".p0.ids")) continue;
      const std::string path = kModels + model + "/gguf/" + model + "-" + type + ".gguf";
      for (const std::string backend : {"torch_native", "cpu_flash"}) {
        TestRunner runner(path, backend, PackMode::kF32, KvType::kF32);
        expect_exact(compare_all(runner, golden, type + ".", 4e-3f), type + " " + backend);
      }
    }
  }
}

TEST(Llama, Bfloat16StaysWithinTheMeasuredTolerance) {
  for (const Bfloat16Case& c :
       {Bfloat16Case{"llama", 0.285f, 0.0563f}, {"llama3", 0.118f, 0.0309f}}) {
    const GoldenArrays golden(kModels + c.name + "/golden.safetensors");
    for (const std::string backend : {"torch_native", "cpu_flash"}) {
      TestRunner runner(kModels + c.name, backend, PackMode::kKeep, KvType::kBF16);
      expect_within_tolerance(compare_all(runner, golden, "", c.p99), c, c.name + " " + backend);
    }
  }
}

// The integer kernels round the activations; they may not be further from the golden than a few
// times what rounding weights to 8 bits costs (TOLERANCES.md: mean 0.1 for Q8_0).
TEST(Llama, QuantisedKernelsStayNearTheDecodedWeights) {
  for (const std::string model : {"llama", "llama_k256"}) {
    const GoldenArrays golden(kModels + model + "/gguf/golden.safetensors");
    for (const std::string type :
         {"Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q6_K", "Q5_K", "Q4_K_M", "Q3_K"}) {
      if (!golden.has(type + ".p0.ids")) continue;
      TestRunner runner(kModels + model + "/gguf/" + model + "-" + type + ".gguf", "cpu_flash",
                        PackMode::kKeep, KvType::kBF16);
      const auto all = compare_all(runner, golden, type + ".", 1.5f);
      EXPECT_LT(all.mean(), 0.25f) << type;
      EXPECT_EQ(all.wide_unequal, 0) << type;
    }
  }
}

TEST(Llama, LogitsDoNotDependOnChunksOrThreads) {
  const GoldenArrays golden(kModels + "llama/golden.safetensors");
  const auto ids = golden.as<std::int32_t>("p5.ids");
  const std::string path = kModels + "llama/gguf/llama-Q4_1.gguf";
  TestRunner whole(path, "cpu_flash", PackMode::kKeep, KvType::kBF16, {.threads = 1});
  const auto expected = whole.append(ids, 0);
  for (std::int32_t chunk : {1, 7, 64}) {
    TestRunner runner(path, "cpu_flash", PackMode::kKeep, KvType::kBF16,
                      {.threads = 1 + chunk % 3});
    const auto logits = runner.append(ids, 0, chunk);
    EXPECT_EQ(0, std::memcmp(logits.data(), expected.data(), logits.size() * 4)) << chunk;
  }
}

TEST(Families, RefuseWhatTheyDoNotServe) {
  ModelConfig config;
  config.architecture = "Gemma2ForCausalLM";
  try {
    find_family(config);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kModelFamilyNotServed);
    EXPECT_NE(error.message().find("LlamaForCausalLM"), std::string::npos);
  }
  const ModelConfig good = checkpoint::read_metadata(kModels + "llama").config;
  const Family& family = find_family(good);
  EXPECT_NO_THROW(family.check(good));
  const auto refused = [&](auto change) {
    ModelConfig bad = good;
    change(bad);
    try {
      family.check(bad);
    } catch (const Error& error) {
      return error.id() == errors::kModelFeatureNotServed ||
             error.id() == errors::kModelConfigMismatch;
    }
    return false;
  };
  EXPECT_TRUE(refused([](ModelConfig& c) { c.activation = "gelu"; }));
  EXPECT_TRUE(refused([](ModelConfig& c) { c.attention_bias = true; }));
  EXPECT_TRUE(refused([](ModelConfig& c) { c.kv_heads = 3; }));
  EXPECT_TRUE(refused([](ModelConfig& c) { c.rope_scaling.type = "nosuch"; }));
  EXPECT_TRUE(refused([](ModelConfig& c) { c.rope_scaling = {.type = "llama3", .factor = 0}; }));
  EXPECT_TRUE(refused([](ModelConfig& c) { c.experts = 8; }));
  EXPECT_TRUE(refused([](ModelConfig& c) { c.context_length = 0; }));
}

TEST(Families, NameTheFieldOfAMissingContext) {
  ModelConfig config = checkpoint::read_metadata(kModels + "llama").config;
  config.context_length = 0;
  try {
    find_family(config).check(config);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.id(), errors::kModelConfigMismatch);
    EXPECT_NE(error.message().find("max_position_embeddings is 0"), std::string::npos);
  }
}

// A configuration of fewer layers than the weights have, in both formats.
TEST(Families, RefuseWeightsOfMoreLayers) {
  for (const auto& [path, tensor] :
       {std::pair{"llama", "model.layers."}, {"llama/gguf/llama-Q4_1.gguf", "blk."}}) {
    checkpoint::Metadata metadata = checkpoint::read_metadata(kModels + path);
    const auto weights = checkpoint::open_weights(metadata);
    ThreadPool pool(1);
    const Family& family = find_family(metadata.config);
    LoadOptions options;
    options.max_tokens = options.max_rows = 1;
    EXPECT_NO_THROW(family.load(metadata, *weights, pool, options));
    const std::int64_t layers = metadata.config.layers--;
    try {
      family.load(metadata, *weights, pool, options);
      ADD_FAILURE() << path;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kModelConfigMismatch);
      const std::string first = std::string(tensor) + std::to_string(layers - 1) + ".";
      EXPECT_NE(error.message().find(first), std::string::npos) << error.message();
    }
    metadata.config.nextn_layers = 1;
    EXPECT_NO_THROW(family.load(metadata, *weights, pool, options));
  }
}

}  // namespace
}  // namespace quern::model
