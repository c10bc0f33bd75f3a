// Weights of type F8_E4M3: their scales are found beside them, and each way in which they may be
// missing or not fit is named when the checkpoint is opened.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/checkpoint.h"
#include "checkpoint/test_safetensors_writer.h"

namespace quern::checkpoint {
namespace {

using testing::HasSubstr;

class Fp8 : public testing::Test {
 protected:
  void SetUp() override {
    const auto* test = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(testing::TempDir()) / "quern_fp8" / test->name();
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  // A folder with these tensors; `quantization` is the config's object.
  std::unique_ptr<Weights> open(const SafetensorsWriter& tensors,
                                const std::string& quantization = kBlocks) {
    std::ofstream(folder_ / "config.json")
        << R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 64,
               "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
               "vocab_size": 261, "max_position_embeddings": 512)"
        << (quantization.empty() ? "" : ", \"quantization_config\": " + quantization) << "}";
    tensors.write((folder_ / "model.safetensors").string());
    return open_weights(read_metadata(folder_.string()));
  }
  Error refusal(const SafetensorsWriter& tensors, const std::string& quantization = kBlocks) {
    try {
      open(tensors, quantization);
    } catch (const Error& error) {
      return error;
    }
    ADD_FAILURE() << "not refused";
    return Error(errors::kInternalError);
  }

  static constexpr const char* kBlocks =
      R"({"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 64]})";
  std::filesystem::path folder_;
};

SafetensorsWriter matrix(std::int64_t rows, std::int64_t columns) {
  SafetensorsWriter writer;
  return writer.add("a.weight", "F8_E4M3", {rows, columns},
                    std::string(static_cast<size_t>(rows * columns), '\x38'));
}

TEST_F(Fp8, ScalesStandBesideTheirMatrix) {
  SafetensorsWriter writer = matrix(130, 65);
  writer.f32("a.weight_scale_inv", {2, 2}, {1, 2, 3, 4});
  writer.add("b.weight", "F8_E4M3", {1, 1}, "\x38");
  writer.add("b.weight_scale_inv", "BF16", {1, 1}, raw<std::uint16_t>(0x4000));
  writer.f32("c.weight", {1}, {5});
  const auto weights = open(writer);
  const auto a = weights->find("a.weight"), b = weights->find("b.weight");
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->info->dtype, DType::kF8E4M3);
  EXPECT_EQ(a->info->bytes, 130 * 65);
  EXPECT_EQ(a->scales.dtype, DType::kF32);
  EXPECT_EQ(a->scales.block_rows, 128);
  EXPECT_EQ(a->scales.block_columns, 64);
  float scales[4];
  std::memcpy(scales, a->scales.data, sizeof(scales));
  EXPECT_EQ(scales[3], 4.0f);
  EXPECT_EQ(b->scales.dtype, DType::kBF16);
  EXPECT_EQ(weights->find("c.weight")->scales.data, nullptr);
}

TEST_F(Fp8, MissingScalesAreNamed) {
  const Error error = refusal(matrix(130, 65));
  EXPECT_EQ(error.id(), errors::kCheckpointTensorMissing);
  EXPECT_EQ(error.field("tensor"), "a.weight_scale_inv");
  EXPECT_THAT(error.message(), HasSubstr("a.weight is stored as F8_E4M3"));
}

TEST_F(Fp8, ScalesOfAnotherShapeOrTypeAreNamed) {
  for (const std::vector<std::int64_t>& shape :
       {std::vector<std::int64_t>{1, 2}, {2, 1}, {4}, {2, 2, 1}, {}}) {
    SafetensorsWriter writer = matrix(130, 65);
    std::int64_t count = 1;
    for (const std::int64_t dim : shape) count *= dim;
    writer.f32("a.weight_scale_inv", shape, std::vector<float>(static_cast<size_t>(count), 1.0f));
    const Error error = refusal(writer);
    EXPECT_EQ(error.id(), errors::kCheckpointTensorShape);
    EXPECT_EQ(error.field("tensor"), "a.weight_scale_inv");
    EXPECT_THAT(error.message(), HasSubstr("scales [2, 2] belong to a.weight [130, 65]"));
  }
  SafetensorsWriter halves = matrix(1, 1);
  halves.add("a.weight_scale_inv", "F16", {1, 1}, raw<std::uint16_t>(0x3C00));
  EXPECT_EQ(refusal(halves).id(), errors::kCheckpointTensorShape);
}

TEST_F(Fp8, BlockSizesThatAreMissingOrNoPairAreNamed) {
  SafetensorsWriter writer = matrix(1, 1);
  writer.f32("a.weight_scale_inv", {1, 1}, {1});
  for (const char* quantization : {"", R"({"quant_method": "fp8"})"}) {
    const Error error = refusal(writer, quantization);
    EXPECT_EQ(error.id(), errors::kConfigFieldMissing);
    EXPECT_EQ(error.field("field"), "quantization_config.weight_block_size");
  }
  for (const char* size : {"[128]", "128", "[128, 0]", "[128, 128, 1]", "\"128\""}) {
    const Error error = refusal(
        writer, R"({"quant_method": "fp8", "weight_block_size": )" + std::string(size) + "}");
    EXPECT_EQ(error.id(), errors::kConfigFieldInvalid) << size;
    EXPECT_EQ(error.field("field"), "quantization_config.weight_block_size") << size;
  }
}

TEST_F(Fp8, OnlyMatricesAreServed) {
  SafetensorsWriter writer;
  writer.add("a.weight", "F8_E4M3", {2}, "\x38\x38");
  EXPECT_EQ(refusal(writer).id(), errors::kCheckpointTensorShape);
}

}  // namespace
}  // namespace quern::checkpoint
