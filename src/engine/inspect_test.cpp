#include "engine/inspect.h"

#include <gtest/gtest.h>

#include <string>

namespace quern::engine {
namespace {

const std::string kModels = QUERN_TEST_DATA "/models/";

TEST(Inspect, TellsOfGguf) {
  const InspectReport report = inspect(kModels + "llama/gguf/llama-Q4_1.gguf");
  EXPECT_EQ(report.format, "GGUF");
  EXPECT_EQ(report.config.architecture, "LlamaForCausalLM");
  EXPECT_EQ(report.tokenizer, "gpt2 (smollm)");
  EXPECT_EQ(report.tokens, 512);
  EXPECT_TRUE(report.has_chat_template);
  // 2 layers × 2 KV heads × (16 + 16) dims × 2 bytes.
  EXPECT_EQ(report.kv_bytes_per_token, 256);
  ASSERT_EQ(report.types.size(), 2u);
  EXPECT_EQ(report.types[0].dtype, "Q4_1");
  EXPECT_EQ(report.types[1].dtype, "F32");
  EXPECT_EQ(report.types[1].parameters, 5 * 128);
  EXPECT_EQ(report.tensors.size(), 20u);
  // Embedding, then of each layer q and o, k and v, and the feed-forward; norms.
  EXPECT_EQ(report.parameters,
            512 * 128 + 2 * (2 * 128 * 128 + 2 * 32 * 128 + 3 * 128 * 128) + 5 * 128);
  EXPECT_EQ(report.bytes, report.types[0].bytes + report.types[1].bytes);
}

TEST(Inspect, TellsOfFolders) {
  const InspectReport report = inspect(kModels + "llama");
  EXPECT_EQ(report.format, "Hugging Face");
  EXPECT_EQ(report.tokenizer, "BPE");
  EXPECT_EQ(report.tokens, 512);
  ASSERT_EQ(report.types.size(), 1u);
  EXPECT_EQ(report.types[0].dtype, "BF16");
  EXPECT_EQ(report.bytes, 2 * report.parameters);
}

TEST(Inspect, CountsTheLatentOfMla) {
  const InspectReport report = inspect(kModels + "deepseek_v2/config.json");
  EXPECT_EQ(report.kv_bytes_per_token, 2 * (64 + 16) * 2);
  EXPECT_TRUE(report.tensors.empty());
  EXPECT_EQ(report.tokenizer, "BPE");
}

}  // namespace
}  // namespace quern::engine
