// The llama family against the golden outputs of the model authors' own implementation.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

#include "base/error.h"
#include "base/errors/model.h"
#include "kernels/test_safetensors.h"
#include "model/test_runner.h"

namespace quern::model {
namespace {

using attention::KvType;
using kernels::PackMode;

const std::string kModels = QUERN_TEST_DATA "/models/";

struct Differences {
  std::vector<float> logits;  // |ours − golden| at the stored positions
  int steps = 0, equal = 0, wide_unequal = 0;
};

// One golden prompt: logits at the stored positions, then the greedy continuation with every
// earlier token forced. `clear` is the margin from which a step must agree.
void compare(TestRunner& runner, const GoldenArrays& golden, const std::string& prompt, float clear,
             Differences& out) {
  const auto ids = golden.as<std::int32_t>(prompt + ".ids");
  const auto positions = golden.as<std::int32_t>(prompt + ".positions");
  const auto expected = golden.floats(prompt + ".logits");
  const auto vocab = static_cast<size_t>(runner.vocab());
  auto logits = runner.append(ids, 0, 37);
  for (size_t i = 0; i < positions.size(); ++i) {
    for (size_t t = 0; t < vocab; ++t) {
      const float ours = logits[static_cast<size_t>(positions[i]) * vocab + t];
      out.logits.push_back(std::fabs(ours - expected[i * vocab + t]));
    }
  }
  const auto greedy = golden.as<std::int32_t>(prompt + ".greedy_ids");
  const auto margin = golden.floats(prompt + ".greedy_margin");
  std::vector<float> last(logits.end() - static_cast<std::ptrdiff_t>(vocab), logits.end());
  for (size_t step = 0; step < greedy.size(); ++step) {
    const auto best = std::max_element(last.begin(), last.end()) - last.begin();
    ++out.steps;
    if (best == greedy[step]) {
      ++out.equal;
    } else if (margin[step] > clear) {
      ++out.wide_unequal;
    }
    const std::int32_t token[] = {greedy[step]};
    last = runner.append(token, static_cast<std::int32_t>(ids.size() + step));
  }
}

Differences compare_all(TestRunner& runner, const GoldenArrays& golden, const std::string& prefix,
                        float clear) {
  Differences all;
  for (int p = 0; golden.has(prefix + "p" + std::to_string(p) + ".ids"); ++p) {
    compare(runner, golden, prefix + "p" + std::to_string(p), clear, all);
  }
  EXPECT_GE(all.steps, 96);
  std::sort(all.logits.begin(), all.logits.end());
  return all;
}

void expect_exact(const Differences& all, const std::string& what) {
  EXPECT_LT(all.logits.back(), 2e-3f) << what;
  EXPECT_EQ(all.wide_unequal, 0) << what;
}

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

// TOLERANCES.md: what transformers itself differs by in bfloat16; mean below twice that, 99th
// percentile below three times, and greedy tokens wherever the margin exceeds that percentile.
TEST(Llama, Bfloat16StaysWithinTheMeasuredTolerance) {
  struct Case {
    std::string name;
    float p99, mean;
  };
  for (const Case& c : {Case{"llama", 0.285f, 0.0563f}, Case{"llama3", 0.118f, 0.0309f}}) {
    const GoldenArrays golden(kModels + c.name + "/golden.safetensors");
    for (const std::string backend : {"torch_native", "cpu_flash"}) {
      TestRunner runner(kModels + c.name, backend, PackMode::kKeep, KvType::kBF16);
      const auto all = compare_all(runner, golden, "", c.p99);
      double mean = 0;
      for (float difference : all.logits) mean += difference;
      mean /= static_cast<double>(all.logits.size());
      EXPECT_LT(mean, 2 * c.mean) << c.name << " " << backend;
      EXPECT_LT(all.logits[all.logits.size() * 99 / 100], 3 * c.p99) << c.name << " " << backend;
      EXPECT_EQ(all.wide_unequal, 0) << c.name << " " << backend;
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
      double mean = 0;
      for (float difference : all.logits) mean += difference;
      EXPECT_LT(mean / static_cast<double>(all.logits.size()), 0.25) << type;
      EXPECT_EQ(all.wide_unequal, 0) << type;
    }
  }
}

TEST(Llama, LogitsDoNotDependOnChunksOrThreads) {
  const GoldenArrays golden(kModels + "llama/golden.safetensors");
  const auto ids = golden.as<std::int32_t>("p5.ids");
  const std::string path = kModels + "llama/gguf/llama-Q4_1.gguf";
  TestRunner whole(path, "cpu_flash", PackMode::kKeep, KvType::kBF16, 1);
  const auto expected = whole.append(ids, 0);
  for (std::int32_t chunk : {1, 7, 64}) {
    TestRunner runner(path, "cpu_flash", PackMode::kKeep, KvType::kBF16, 1 + chunk % 3);
    const auto logits = runner.append(ids, 0, chunk);
    EXPECT_EQ(0, std::memcmp(logits.data(), expected.data(), logits.size() * 4)) << chunk;
  }
}

TEST(Families, RefuseWhatTheyDoNotServe) {
  ModelConfig config;
  config.architecture = "DeepseekV3ForCausalLM";
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
