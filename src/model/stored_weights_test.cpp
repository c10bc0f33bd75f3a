// Models whose matrices stay as the checkpoint stores them: the logits of packed ones, bit for bit.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "model/gguf_twin.h"
#include "model/golden_compare.h"

namespace quern::model {
namespace {

using attention::KvType;
using kernels::PackMode;

const std::vector<std::int32_t> kIds = [] {
  std::vector<std::int32_t> ids;
  for (int i = 0; i < 140; ++i) ids.push_back(4 + i * 37 % 500);  // more rows than a chunk's 128
  return ids;
}();

// Logits of a prompt and of one more token.
std::vector<float> logits_of(const std::string& path, PackMode mode, bool repack) {
  const KvType kv = mode == PackMode::kF32 ? KvType::kF32 : KvType::kBF16;
  TestRunner runner(path, "cpu_flash", mode, kv, {.repack = repack});
  auto logits = runner.append(kIds, 0);
  const auto more = runner.append(std::span(kIds).first(1), static_cast<std::int32_t>(kIds.size()));
  logits.insert(logits.end(), more.begin(), more.end());
  return logits;
}

void expect_same_bits(const std::string& path) {
  for (const PackMode mode : {PackMode::kKeep, PackMode::kF32, PackMode::kBF16}) {
    const auto packed = logits_of(path, mode, true), stored = logits_of(path, mode, false);
    ASSERT_EQ(packed.size(), stored.size());
    EXPECT_EQ(0, std::memcmp(packed.data(), stored.data(), packed.size() * sizeof(float))) << path;
  }
}

TEST(StoredWeights, GiveTheLogitsOfPackedOnesInEveryGgufType) {
  for (const std::string type : {"F32", "F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1"}) {
    expect_same_bits(kModels + "llama/gguf/llama-" + type + ".gguf");
  }
  for (const std::string type : {"Q3_K", "Q4_K_M", "Q5_K", "Q6_K"}) {
    expect_same_bits(kModels + "llama_k256/gguf/llama_k256-" + type + ".gguf");
  }
}

// Matrices made of a tensor, routers and the heads of latent attention are packed all the same.
TEST(StoredWeights, GiveTheLogitsOfPackedOnesInEveryFamily) {
  for (const std::string name : {"llama3", "qwen2", "qwen3", "mistral", "mixtral", "qwen3_moe",
                                 "deepseek_v2", "deepseek_v3"}) {
    expect_same_bits(kModels + name);
  }
}

// Experts that stand in one tensor; up-projections that a file stores split.
TEST(StoredWeights, GiveTheLogitsOfPackedOnesInFilesOfExperts) {
  const std::string path = testing::TempDir() + "stored-weights.gguf";
  for (const auto& [folder, architecture] :
       {std::pair{"mixtral", "llama"}, {"deepseek_v2", "deepseek2"}}) {
    GgufTwin(kModels + folder, architecture, TwinType::kQ8_0).write(path);
    expect_same_bits(path);
  }
  std::filesystem::remove(path);
}

// However large the tensors: experts that share one are told of one by one.
TEST(Loading, ReportsHowFarItIs) {
  const std::string path = testing::TempDir() + "progress.gguf";
  GgufTwin(kModels + "mixtral", "llama", TwinType::kQ8_0).write(path);
  const auto metadata = checkpoint::read_metadata(path);
  const auto weights = checkpoint::open_weights(metadata);
  std::int64_t total_bytes = 0, largest = 0;
  for (const TensorInfo& tensor : weights->tensors()) {
    total_bytes += tensor.bytes;
    const bool experts = tensor.shape.size() == 3;
    largest = std::max(largest, experts ? tensor.bytes / tensor.shape[0] : tensor.bytes);
  }
  ThreadPool pool(1);
  for (const bool repack : {true, false}) {
    std::int64_t last = 0;
    LoadOptions options;
    options.repack = repack;
    options.max_tokens = options.max_rows = 1;
    options.on_progress = [&](std::int64_t done, std::int64_t total) {
      EXPECT_EQ(total, total_bytes);
      EXPECT_GT(done, last);
      EXPECT_LE(done - last, largest);
      last = done;
    };
    find_family(metadata.config).load(metadata, *weights, pool, options);
    EXPECT_EQ(last, total_bytes);
  }
  std::filesystem::remove(path);
}

TEST(StoredWeights, TakeTheBytesOfTheFile) {
  const auto metadata = checkpoint::read_metadata(kModels + "llama_k256/gguf/llama_k256-Q3_K.gguf");
  const auto weights = checkpoint::open_weights(metadata);
  std::int64_t stored_bytes = 0;
  for (const TensorInfo& tensor : weights->tensors()) stored_bytes += tensor.bytes;
  ThreadPool pool(1);
  LoadOptions options;
  options.max_tokens = options.max_rows = 1;
  const Family& family = find_family(metadata.config);
  const auto packed = family.load(metadata, *weights, pool, options);
  options.repack = false;
  const auto stored = family.load(metadata, *weights, pool, options);
  EXPECT_EQ(stored->weight_bytes(), stored_bytes);
  EXPECT_GT(packed->weight_bytes(), stored_bytes);
}

}  // namespace
}  // namespace quern::model
