// The estimate against published sizes: parameters of the built-in models, bytes of a token, and
// what fits a named machine.
#include "engine/memory_estimate.h"

#include <gtest/gtest.h>

#include <cmath>

#include "checkpoint/checkpoint.h"
#include "checkpoint/config.h"

namespace quern::engine {
namespace {

using attention::hardware_named;
using attention::KvType;

ModelConfig config_of(const std::string& name) { return checkpoint::read_metadata(name).config; }

struct Published {
  const char* name;
  double billions;
  double active = 0;  // 0: not compared
};

class SizeOfModel : public testing::TestWithParam<Published> {};

TEST_P(SizeOfModel, IsThePublishedOne) {
  const auto& [name, billions, active] = GetParam();
  const Parameters counted = count_parameters(config_of(name));
  EXPECT_TRUE(counted.known_class);
  EXPECT_NEAR(static_cast<double>(counted.total) / 1e9, billions, 0.015 * billions);
  if (active > 0) {
    EXPECT_NEAR(static_cast<double>(counted.active) / 1e9, active, 0.05 * active);
  }
}

// As the model cards say; "A3B" and the like are rounded, so active ones are compared loosely.
INSTANTIATE_TEST_SUITE_P(
    Models, SizeOfModel,
    testing::Values(Published{"DeepSeek-V3", 671, 37}, Published{"DeepSeek-V2", 236, 21},
                    Published{"DeepSeek-V2-Lite", 15.7}, Published{"Kimi-K2-Instruct", 1026, 32},
                    Published{"Llama-2-7b-hf", 6.74}, Published{"Llama-3.1-8B", 8.03},
                    Published{"Llama-3.1-70B", 70.6}, Published{"Llama-3.1-405B", 406},
                    Published{"Llama-3.2-1B", 1.24}, Published{"Llama-4-Scout-17B-16E", 109, 17},
                    Published{"Qwen2.5-7B", 7.62}, Published{"Qwen3-8B", 8.19},
                    Published{"Qwen3-32B", 32.8}, Published{"Qwen3-30B-A3B", 30.5, 3.3},
                    Published{"Qwen3-235B-A22B", 235, 22}, Published{"Qwen3-Next-80B-A3B", 79.7},
                    Published{"Mistral-7B-v0.3", 7.25}, Published{"Mixtral-8x7B-v0.1", 46.7, 12.9},
                    Published{"gemma-2-9b", 9.24}, Published{"gemma-3-27b", 27.0},
                    Published{"phi-4", 14.7}, Published{"Phi-3-mini-4k-instruct", 3.82},
                    Published{"gpt-oss-20b", 20.9}, Published{"gpt-oss-120b", 116.8},
                    Published{"MiniCPM3-4B", 4.07}, Published{"OLMo-2-1124-7B", 7.3},
                    Published{"c4ai-command-r-v01", 35.0}, Published{"whisper-large-v3", 1.54},
                    Published{"bart-large", 0.406}, Published{"t5-base", 0.223},
                    Published{"flan-t5-base", 0.248}, Published{"SmolLM2-135M", 0.1345}),
    [](const auto& test) {
      std::string name = test.param.name;
      std::erase_if(name, [](char c) { return c == '-' || c == '.'; });
      return name;
    });

TEST(MemoryEstimate, CountsDraftLayersApart) {
  // The repository of DeepSeek-V3 holds 685 billion, 14 of them for multi-token prediction.
  const Parameters counted = count_parameters(config_of("DeepSeek-V3"));
  EXPECT_NEAR(static_cast<double>(counted.draft) / 1e9, 14, 0.6);
  EXPECT_EQ(count_parameters(config_of("Llama-3.1-8B")).draft, 0);
}

TEST(MemoryEstimate, BytesOfATokenAreThoseOfItsLayers) {
  const auto bytes = [](const char* name, KvType type = KvType::kAuto, std::int64_t tp = 1) {
    return kv_bytes_per_token(config_of(name), type, tp);
  };
  EXPECT_EQ(bytes("DeepSeek-V3"), 61 * 576 * 2);  // 70,272
  EXPECT_EQ(bytes("DeepSeek-V3", KvType::kFp8E4M3), 61 * 576);
  EXPECT_EQ(bytes("DeepSeek-V3", KvType::kAuto, 8), 61 * 576 * 2);  // a latent row is not shared
  EXPECT_EQ(kv_bytes_per_token(config_of("DeepSeek-V3"), KvType::kAuto, 1, true),
            61 * 128 * (192 + 128) * 2);
  EXPECT_EQ(bytes("Llama-3.1-8B"), 32 * 8 * 128 * 2 * 2);
  EXPECT_EQ(bytes("Llama-3.1-8B", KvType::kF32), 32 * 8 * 128 * 2 * 4);
  EXPECT_EQ(bytes("Llama-3.1-8B", KvType::kAuto, 8), 32 * 1 * 128 * 2 * 2);
  EXPECT_EQ(bytes("Llama-3.1-8B", KvType::kAuto, 16), 32 * 1 * 128 * 2 * 2);  // repeated
  EXPECT_EQ(bytes("Llama-3.1-8B", KvType::kNvFp4), 32 * 8 * 128 * 2 * 9 / 16);
  EXPECT_EQ(bytes("Qwen3-Next-80B-A3B"), 12 * 2 * 256 * 2 * 2);  // linear layers hold no rows
  EXPECT_EQ(bytes("Llama-3.2-11B-Vision"), 32 * 8 * 128 * 2 * 2);
  EXPECT_EQ(bytes("MiMo-V2-Flash"), (9 * 4 + 39 * 8) * (192 + 128) * 2);
}

TEST(MemoryEstimate, LinearAttentionHoldsAStatePerRequest) {
  const std::int64_t bytes = state_bytes_per_request(config_of("Qwen3-Next-80B-A3B"), 1);
  EXPECT_EQ(bytes, 36 * (32 * 128 * 128 * 4 + 3 * 2 * (2 * 16 * 128 + 32 * 128)));
  EXPECT_EQ(state_bytes_per_request(config_of("Llama-3.1-8B"), 1), 0);
}

TEST(MemoryEstimate, WeighsStoredTypes) {
  const auto gigabytes = [](const char* name) {
    const ModelConfig config = config_of(name);
    return static_cast<double>(weight_bytes(config, count_parameters(config))) / 1e9;
  };
  EXPECT_NEAR(gigabytes("Llama-3.1-8B"), 16.06, 0.2);
  EXPECT_NEAR(gigabytes("DeepSeek-V3"), 673, 8);  // fp8, embeddings in bf16
  EXPECT_NEAR(gigabytes("gpt-oss-20b"), 13.8, 0.4);
  EXPECT_NEAR(gigabytes("gpt-oss-120b"), 65.2, 2);
}

TEST(MemoryEstimate, TellsWhatFits) {
  const auto h200 = hardware_named("h200");
  const MemoryEstimate one =
      estimate_memory(config_of("DeepSeek-V3"), h200, KvType::kAuto, 1, 0, 0);
  EXPECT_LT(one.free_bytes, 0);
  EXPECT_EQ(one.tokens, 0);
  EXPECT_EQ(one.requests, 0);
  EXPECT_EQ(one.least_tp, 8);

  const MemoryEstimate eight =
      estimate_memory(config_of("DeepSeek-V3"), h200, KvType::kAuto, 8, 32768, 0);
  EXPECT_EQ(eight.device, "NVIDIA H200");
  EXPECT_EQ(eight.tokens, eight.free_bytes / 70272);
  EXPECT_EQ(eight.requests, eight.tokens / 32768);
  EXPECT_GT(eight.requests, 10);

  const MemoryEstimate cpu =
      estimate_memory(config_of("Llama-3.1-8B"), hardware_named("avx2"), KvType::kAuto, 1, 8192, 0);
  EXPECT_EQ(cpu.device, "main memory");
  EXPECT_EQ(cpu.requests, cpu.free_bytes / (131072 * std::int64_t{8192}));
}

TEST(MemoryEstimate, PrefersTheSizeOfTheFiles) {
  const MemoryEstimate made = estimate_memory(config_of("Llama-3.1-8B"), hardware_named("avx2"),
                                              KvType::kAuto, 1, 0, 5'000'000'000);
  EXPECT_TRUE(made.stored_weights);
  EXPECT_EQ(made.weight_bytes, 5'000'000'000);
}

// FP8 weights keep their size on a GPU and become bf16 here, whatever their files' size.
TEST(MemoryEstimate, CountsFp8AsItStandsInMemory) {
  const ModelConfig config = config_of("DeepSeek-V3");
  const MemoryEstimate here =
      estimate_memory(config, hardware_named("avx2"), KvType::kAuto, 1, 0, 688'000'000'000);
  EXPECT_FALSE(here.stored_weights);
  EXPECT_NEAR(static_cast<double>(here.weight_bytes) / 1e9, 1342, 10);
  EXPECT_EQ(here.weight_type, "fp8, as BF16 in memory");
  const MemoryEstimate there =
      estimate_memory(config, hardware_named("h200"), KvType::kAuto, 1, 0, 688'000'000'000);
  EXPECT_EQ(there.weight_bytes, 688'000'000'000);
  EXPECT_EQ(there.weight_type, "fp8");
}

// Mapped weights keep their stored type and need not fit: half of the memory is left to the rest.
TEST(MemoryEstimate, CountsMappedWeights) {
  const auto estimate = [](const char* model, const char* machine, std::int64_t stored,
                           bool mapped) {
    return estimate_memory(config_of(model), hardware_named(machine), KvType::kAuto, 1, 8192,
                           stored, mapped);
  };
  const std::int64_t host = hardware_named("avx2").host_bytes;
  const auto usable = static_cast<std::int64_t>(std::round(static_cast<double>(host) * 0.9));
  const MemoryEstimate small = estimate("Llama-3.1-8B", "avx2", 5'000'000'000, true);
  EXPECT_TRUE(small.mapped_weights);
  EXPECT_EQ(small.free_bytes, estimate("Llama-3.1-8B", "avx2", 5'000'000'000, false).free_bytes);
  const MemoryEstimate large = estimate("DeepSeek-V3", "avx2", 688'000'000'000, true);
  EXPECT_EQ(large.weight_bytes, 688'000'000'000);
  EXPECT_EQ(large.weight_type, "fp8");
  EXPECT_NEAR(static_cast<double>(large.free_bytes), static_cast<double>(usable / 2), 2);
  EXPECT_GT(large.requests, 0);
  EXPECT_LT(estimate("DeepSeek-V3", "avx2", 688'000'000'000, false).free_bytes, 0);
  EXPECT_FALSE(estimate("DeepSeek-V3", "h200", 688'000'000'000, true).mapped_weights);
}

TEST(MemoryEstimate, KnowsNoSizeOfAnUnknownDevice) {
  attention::Hardware hardware;
  hardware.gpus = 1;
  const MemoryEstimate made =
      estimate_memory(config_of("Llama-3.1-8B"), hardware, KvType::kAuto, 1, 0, 0);
  EXPECT_EQ(made.device_bytes, 0);
  EXPECT_EQ(made.tokens, 0);
  EXPECT_EQ(made.least_tp, 0);
}

TEST(MemoryEstimate, HoldsForTheLargestConfig) {
  const ModelConfig config = checkpoint::parse_config(
      R"({"architectures": ["AForCausalLM"], "model_type": "a", "hidden_size": 1000000,
          "num_hidden_layers": 4096, "num_attention_heads": 65536, "head_dim": 65536,
          "vocab_size": 100000000, "intermediate_size": 10000000, "num_experts": 65536,
          "num_experts_per_tok": 65536, "max_position_embeddings": 1000000000})",
      "config.json");
  const MemoryEstimate made =
      estimate_memory(config, hardware_named("h100"), KvType::kF32, 1, 0, 0);
  EXPECT_FALSE(made.parameters.known_class);
  EXPECT_GT(made.parameters.total, 0);
  EXPECT_LT(made.free_bytes, 0);
  EXPECT_EQ(made.requests, 0);
}

}  // namespace
}  // namespace quern::engine
