// The families with experts against their golden outputs, and what they refuse.
#include <gmock/gmock.h>

#include <cstring>

#include "base/error.h"
#include "base/errors/model.h"
#include "model/golden_compare.h"

namespace quern::model {
namespace {

using attention::KvType;
using kernels::PackMode;

const std::vector<Bfloat16Case> kCases = {{"mixtral", 0.127f, 0.0319f},
                                          {"qwen3_moe", 0.15f, 0.0365f}};
const std::string kBackends[] = {"torch_native", "cpu_flash"};

TEST(Experts, Float32MeetsTheGoldensInBothFormsOfTheConfig) {
  for (const Bfloat16Case& c : kCases) {
    const GoldenArrays golden(kModels + c.name + "/golden.safetensors");
    for (const std::string form : {"config.json", "config.v5.json"}) {
      for (const std::string& backend : kBackends) {
        TestRunner runner(kModels + c.name + "/" + form, backend, PackMode::kF32, KvType::kF32);
        const auto all = compare_all(runner, golden, "", 4e-3f);
        expect_exact(all, c.name + " " + form + " " + backend);
        EXPECT_EQ(all.equal, all.steps) << c.name << " " << backend;
      }
    }
  }
}

// A token whose experts are nearly tied may go to another one for the rounding, and its logits then
// differ by far more: one of the 28 stored positions may, and what it chooses.
TEST(Experts, Bfloat16StaysWithinTheMeasuredTolerance) {
  for (const Bfloat16Case& c : kCases) {
    const GoldenArrays golden(kModels + c.name + "/golden.safetensors");
    for (const std::string& backend : kBackends) {
      TestRunner runner(kModels + c.name, backend, PackMode::kKeep, KvType::kBF16);
      const auto all = compare_all(runner, golden, "", c.p99);
      EXPECT_LT(all.mean(), 2 * c.mean) << c.name << " " << backend;
      EXPECT_LT(all.percentile(95), 3 * c.p99) << c.name << " " << backend;
      EXPECT_LE(all.wide_unequal, 1) << c.name << " " << backend;
    }
  }
}

TEST(Experts, LogitsDoNotDependOnChunksPagesOrThreads) {
  for (const Bfloat16Case& c : kCases) {
    const auto ids =
        GoldenArrays(kModels + c.name + "/golden.safetensors").as<std::int32_t>("p5.ids");
    const auto logits_of = [&](std::int32_t chunk, int threads, std::int64_t page_size) {
      TestRunner runner(kModels + c.name, "cpu_flash", PackMode::kKeep, KvType::kBF16,
                        {.threads = threads, .page_size = page_size});
      return runner.append(ids, 0, chunk);
    };
    const auto expected = logits_of(256, 1, 16);
    for (const auto& [chunk, threads, page_size] :
         {std::tuple{1, 2, 16}, {7, 1, 32}, {64, 3, 64}, {256, 2, 128}}) {
      const auto logits = logits_of(chunk, threads, page_size);
      EXPECT_EQ(0, std::memcmp(logits.data(), expected.data(), logits.size() * 4))
          << c.name << " " << chunk;
    }
  }
}

TEST(Experts, AStepOfOneTokenReadsFewerBytes) {
  const auto metadata = checkpoint::read_metadata(kModels + "mixtral");
  ThreadPool pool(1);
  LoadOptions options;
  options.max_tokens = options.max_rows = 1;
  const auto weights = checkpoint::open_weights(metadata);
  const auto model = find_family(metadata.config).load(metadata, *weights, pool, options);
  // The embedding is not multiplied, and 6 of 8 experts of both layers rest.
  EXPECT_EQ(model->decode_bytes(), model->weight_bytes() - 512 * 64 * 2 - 2 * 6 * 3 * 64 * 32 * 2);
}

TEST(Experts, RefuseConfigurationsThatDoNotFit) {
  const auto message_of = [](const std::string& name, auto change) -> std::string {
    ModelConfig config = checkpoint::read_metadata(kModels + name).config;
    const Family& family = find_family(config);
    EXPECT_NO_THROW(family.check(config));
    change(config);
    try {
      family.check(config);
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kModelConfigMismatch);
      return error.message();
    }
    return "accepted";
  };
  using testing::HasSubstr;
  for (const Bfloat16Case& c : kCases) {
    EXPECT_THAT(message_of(c.name, [](ModelConfig& m) { m.experts = 0; }),
                HasSubstr("experts is 0"));
    EXPECT_THAT(message_of(c.name, [](ModelConfig& m) { m.experts_per_token = 9; }),
                HasSubstr("experts per token is 9, of 8 experts"));
    EXPECT_THAT(message_of(c.name, [](ModelConfig& m) { m.moe_inter = 0; }),
                HasSubstr("the width of an expert is 0"));
  }
}

// Weights without some tensors, as a file that lost them.
class Without final : public checkpoint::Weights {
 public:
  Without(const checkpoint::Weights& whole, std::string lost)
      : whole_(whole), lost_(std::move(lost)) {}
  const std::vector<TensorInfo>& tensors() const override { return whole_.tensors(); }
  std::optional<TensorView> find(std::string_view name) const override {
    return name == lost_ ? std::nullopt : whole_.find(name);
  }
  void release(const TensorView& tensor) const override { whole_.release(tensor); }
  std::string origin() const override { return whole_.origin(); }

 private:
  const checkpoint::Weights& whole_;
  std::string lost_;
};

TEST(Experts, NameAMissingTensorBeforeAnythingIsPacked) {
  const auto metadata = checkpoint::read_metadata(kModels + "qwen3_moe");
  const auto whole = checkpoint::open_weights(metadata);
  ThreadPool pool(1);
  LoadOptions options;
  options.max_tokens = options.max_rows = 1;
  int packed = 0;
  options.on_progress = [&](std::int64_t, std::int64_t) { ++packed; };
  const Family& family = find_family(metadata.config);
  for (const std::string name :
       {"mlp.gate.weight", "mlp.experts.7.down_proj.weight", "self_attn.q_norm.weight"}) {
    const std::string lost = "model.layers.2." + name;
    try {
      family.load(metadata, Without(*whole, lost), pool, options);
      ADD_FAILURE() << lost;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), errors::kTensorMissing);
      EXPECT_THAT(error.message(), testing::HasSubstr(lost));
    }
  }
  EXPECT_EQ(packed, 0);
  // More experts than the file has are named too, and fewer are a router of another shape.
  for (const auto& [experts, id] :
       {std::pair{9, errors::kTensorShapeWrong}, {7, errors::kTensorShapeWrong}}) {
    checkpoint::Metadata other = metadata;
    other.config.experts = experts;
    try {
      family.load(other, *whole, pool, options);
      ADD_FAILURE() << experts;
    } catch (const Error& error) {
      EXPECT_EQ(error.id(), id);
      EXPECT_THAT(error.message(), testing::HasSubstr("mlp.gate.weight"));
    }
  }
}

}  // namespace
}  // namespace quern::model
