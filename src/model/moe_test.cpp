// The mixture-of-experts layer by itself: against the fixtures' stored inputs, choices and outputs,
// and against plain arithmetic on the decoded weights of every stored type.
#include "model/layers/moe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <random>

#include "kernels/decode_blocks.h"
#include "kernels/test_safetensors.h"
#include "kernels/test_stored.h"
#include "model/layers/moe_router.h"
#include "model/part_runner.h"

namespace quern::model {
namespace {

using kernels::PackMode;
using kernels::Stored;

const std::string kModels = QUERN_TEST_DATA "/models/";

// A fixture's expert layer with what went into it and came out of it, for the tokens of one prompt.
struct Fixture {
  std::string model;
  std::int64_t layer;
  const char *router, *bias;
};
const Fixture kFixtures[] = {
    {"mixtral", 0, "block_sparse_moe.gate.weight", nullptr},
    {"mixtral", 1, "block_sparse_moe.gate.weight", nullptr},
    {"qwen3_moe", 0, "mlp.gate.weight", nullptr},
    {"qwen3_moe", 2, "mlp.gate.weight", nullptr},
    {"deepseek_v2", 1, "mlp.gate.weight", nullptr},
    {"deepseek_v2_grouped", 1, "mlp.gate.weight", nullptr},
    {"deepseek_v3", 1, "mlp.gate.weight", "mlp.gate.e_score_correction_bias"},
};

MoeNames names_of(const std::string& model) {
  MoeNames names;
  if (model != "mixtral") return names;
  names.router.hugging_face = "block_sparse_moe.gate.weight";
  names.gate.hugging_face = "block_sparse_moe.experts.{}.w1.weight";
  names.down.hugging_face = "block_sparse_moe.experts.{}.w2.weight";
  names.up.hugging_face = "block_sparse_moe.experts.{}.w3.weight";
  return names;
}

// The normalised rows that the fixture's layer was given.
std::vector<float> input_of(const Fixture& fixture, const ModelConfig& config,
                            const GoldenArrays& golden, const GoldenArrays& weights) {
  const std::string number = std::to_string(fixture.layer);
  std::vector<float> x = golden.floats(
      fixture.layer == 0 ? "hidden.embed" : "hidden.layer." + std::to_string(fixture.layer - 1));
  const auto attended = golden.floats("attn.layer." + number);
  const auto weight = weights.floats("model.layers." + number + ".post_attention_layernorm.weight");
  for (size_t i = 0; i < x.size(); ++i) x[i] += attended[i];
  const size_t hidden = weight.size();
  for (size_t row = 0; row < x.size(); row += hidden) {
    double squares = 0;
    for (size_t i = 0; i < hidden; ++i) squares += double{x[row + i]} * x[row + i];
    const double scale = 1 / std::sqrt(squares / static_cast<double>(hidden) + config.rms_norm_eps);
    for (size_t i = 0; i < hidden; ++i) {
      x[row + i] = static_cast<float>(x[row + i] * scale * weight[i]);
    }
  }
  return x;
}

TEST(Moe, RoutesAsTheFixtures) {
  for (const Fixture& fixture : kFixtures) {
    SCOPED_TRACE(fixture.model);
    const std::string folder = kModels + fixture.model;
    const ModelConfig config = checkpoint::read_metadata(folder).config;
    const GoldenArrays golden(folder + "/golden.safetensors");
    const GoldenArrays weights(folder + "/model.safetensors");
    const std::string number = std::to_string(fixture.layer);
    const std::string prefix = "model.layers." + number + ".";
    const auto x = input_of(fixture, config, golden, weights);
    const auto router = weights.floats(prefix + fixture.router);
    const auto bias = fixture.bias ? weights.floats(prefix + fixture.bias) : std::vector<float>();
    const auto chosen = golden.as<std::int32_t>("router.layer." + number + ".experts");
    const auto expected = golden.floats("router.layer." + number + ".weights");
    const auto hidden = static_cast<size_t>(config.hidden);
    const auto slots = static_cast<size_t>(config.experts_per_token);
    ASSERT_EQ(chosen.size(), x.size() / hidden * slots);
    for (size_t token = 0; token * hidden < x.size(); ++token) {
      std::vector<float> logits;
      for (size_t row = 0; row < router.size(); row += hidden) {
        double sum = 0;
        for (size_t i = 0; i < hidden; ++i) sum += double{x[token * hidden + i]} * router[row + i];
        logits.push_back(static_cast<float>(sum));
      }
      std::vector<std::int32_t> experts(slots);
      std::vector<float> expert_weights(slots);
      route(config.routing, logits, bias, experts, expert_weights);
      std::map<std::int32_t, float> ascending;  // as the fixture stores them
      for (size_t s = 0; s < slots; ++s) ascending[experts[s]] = expert_weights[s];
      ASSERT_EQ(ascending.size(), slots);
      size_t at = token * slots;
      for (const auto& [expert, weight] : ascending) {
        EXPECT_EQ(expert, chosen[at]);
        EXPECT_NEAR(weight, expected[at], 1e-5f);
        ++at;
      }
    }
  }
}

TEST(Moe, GivesTheFixturesOutputs) {
  for (const Fixture& fixture : kFixtures) {
    SCOPED_TRACE(fixture.model);
    const auto metadata = checkpoint::read_metadata(kModels + fixture.model);
    const auto weights = checkpoint::open_weights(metadata);
    const GoldenArrays golden(kModels + fixture.model + "/golden.safetensors");
    const GoldenArrays stored(kModels + fixture.model + "/model.safetensors");
    const auto x = input_of(fixture, metadata.config, golden, stored);
    const auto expected = golden.floats("mlp.layer." + std::to_string(fixture.layer));
    for (const int threads : {1, 2, 3}) {
      PartRunner runner(metadata.config, *weights, PackMode::kF32, threads);
      runner.load(fixture.layer, false, [&](const LayerLoader& layer) {
        return load_moe(layer, names_of(fixture.model));
      });
      const auto out = runner.run(x);
      ASSERT_EQ(out.size(), expected.size());
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-4f) << i;
    }
  }
}

// Tensors in memory.
class MemoryWeights final : public checkpoint::Weights {
 public:
  void add(const std::string& name, DType type, std::vector<std::int64_t> shape, unsigned seed) {
    const std::int64_t columns = shape.back();
    const std::int64_t rows = std::accumulate(shape.begin(), shape.end() - 1, std::int64_t{1},
                                              std::multiplies<std::int64_t>());
    Stored& stored = stored_.emplace(name, Stored(type, rows, columns, seed)).first->second;
    stored.info.name = name;
    stored.info.shape = std::move(shape);
  }
  const std::vector<TensorInfo>& tensors() const override { return none_; }
  std::optional<TensorView> find(std::string_view name) const override {
    const auto it = stored_.find(name);
    return it == stored_.end() ? std::nullopt : std::optional(it->second.view());
  }
  void release(const TensorView&) const override {}
  std::string origin() const override { return "memory"; }

  Stored& stored(const std::string& name) { return stored_.find(name)->second; }
  // Row `row` of all the matrices of a tensor together, decoded.
  std::vector<float> row(const std::string& name, std::int64_t row) const {
    const TensorView tensor = *find(name);
    std::vector<float> values(static_cast<size_t>(tensor.columns()));
    const std::int64_t bytes = row_bytes(tensor.info->dtype, tensor.columns());
    kernels::decode(tensor.info->dtype, tensor.data + row * bytes, tensor.columns(), values.data());
    return values;
  }

 private:
  std::map<std::string, Stored, std::less<>> stored_;
  std::vector<TensorInfo> none_;
};

constexpr std::int64_t kHidden = 256, kInter = 256, kExperts = 6, kSlots = 3, kShared = 32;

ModelConfig config_of() {
  ModelConfig config;
  config.hidden = kHidden;
  config.moe_inter = kInter;
  config.experts = kExperts;
  config.experts_per_token = kSlots;
  config.shared_inter = kShared;
  config.routing.normalize = true;
  return config;
}

// Of one layer in GGUF's names. down may be stored in another type, as mixed files have it.
MemoryWeights weights_of(DType type, DType down) {
  MemoryWeights weights;
  const std::string blk = "blk.0.ffn_";
  weights.add(blk + "gate_inp.weight", DType::kF32, {kExperts, kHidden}, 1);
  weights.add(blk + "gate_exps.weight", type, {kExperts, kInter, kHidden}, 2);
  weights.add(blk + "up_exps.weight", type, {kExperts, kInter, kHidden}, 3);
  weights.add(blk + "down_exps.weight", down, {kExperts, kHidden, kInter}, 4);
  weights.add(blk + "gate_shexp.weight", DType::kF32, {kShared, kHidden}, 5);
  weights.add(blk + "up_shexp.weight", DType::kF32, {kShared, kHidden}, 6);
  weights.add(blk + "down_shexp.weight", DType::kF32, {kHidden, kShared}, 7);
  return weights;
}

std::vector<float> random_rows(std::int64_t rows, unsigned seed) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<size_t>(rows * kHidden));
  for (float& value : x) value = normal(engine);
  return x;
}

double dot(const std::vector<float>& weights, const std::vector<double>& x) {
  double sum = 0;
  for (size_t i = 0; i < weights.size(); ++i) sum += double{weights[i]} * x[i];
  return sum;
}

// One gated feed-forward in double, from rows [first, first + inter) of gate and up.
std::vector<double> feed_forward(const MemoryWeights& weights, const std::string& suffix,
                                 std::int64_t expert, std::int64_t inter,
                                 const std::vector<double>& x) {
  std::vector<double> middle, out;
  for (std::int64_t i = expert * inter; i < (expert + 1) * inter; ++i) {
    const double gate = dot(weights.row("blk.0.ffn_gate_" + suffix, i), x);
    const double up = dot(weights.row("blk.0.ffn_up_" + suffix, i), x);
    middle.push_back(gate / (1 + std::exp(-gate)) * up);
  }
  for (std::int64_t i = expert * kHidden; i < (expert + 1) * kHidden; ++i) {
    out.push_back(dot(weights.row("blk.0.ffn_down_" + suffix, i), middle));
  }
  return out;
}

std::vector<double> reference(const MemoryWeights& weights, std::span<const float> row) {
  const std::vector<double> x(row.begin(), row.end());
  std::vector<float> logits;
  for (std::int64_t e = 0; e < kExperts; ++e) {
    logits.push_back(static_cast<float>(dot(weights.row("blk.0.ffn_gate_inp.weight", e), x)));
  }
  std::vector<std::int32_t> experts(kSlots);
  std::vector<float> weight(kSlots);
  route(config_of().routing, logits, {}, experts, weight);
  std::vector<double> sum = feed_forward(weights, "shexp.weight", 0, kShared, x);
  for (size_t s = 0; s < kSlots; ++s) {
    const auto out = feed_forward(weights, "exps.weight", experts[s], kInter, x);
    for (size_t i = 0; i < sum.size(); ++i) sum[i] += double{weight[s]} * out[i];
  }
  return sum;
}

PartRunner& load(PartRunner& runner) {
  runner.load(0, true, [](const LayerLoader& layer) { return load_moe(layer); });
  return runner;
}

double relative_error(const MemoryWeights& weights, PackMode pack, std::span<const float> x) {
  PartRunner runner(config_of(), weights, pack);
  const auto out = load(runner).run(x);
  double wrong = 0, all = 0;
  for (size_t row = 0; row < x.size(); row += kHidden) {
    const auto expected = reference(weights, x.subspan(row, kHidden));
    for (size_t i = 0; i < expected.size(); ++i) {
      wrong += std::pow(out[row + i] - expected[i], 2);
      all += std::pow(expected[i], 2);
    }
  }
  return std::sqrt(wrong / all);
}

TEST(Moe, ComputesWithEveryStoredType) {
  const auto x = random_rows(3, 11);
  for (const DType type : kernels::kAllTypes) {
    const MemoryWeights weights = weights_of(type, type);
    EXPECT_LT(relative_error(weights, PackMode::kF32, x), 1e-5) << name_of(type);
    EXPECT_LT(relative_error(weights, PackMode::kKeep, x), 0.02) << name_of(type);
  }
  EXPECT_LT(relative_error(weights_of(DType::kQ4_K, DType::kBF16), PackMode::kKeep, x), 0.02);
}

// A token's bits alone, and among others that share some of its experts.
TEST(Moe, ATokensBitsDoNotDependOnTheBatchOrTheThreads) {
  constexpr std::int64_t kTokens = 23;
  const auto x = random_rows(kTokens, 12);
  for (const DType type : {DType::kF32, DType::kBF16, DType::kQ8_0, DType::kQ4_K}) {
    const MemoryWeights weights = weights_of(type, type);
    PartRunner one_thread(config_of(), weights, PackMode::kKeep, 1);
    const auto together = load(one_thread).run(x);
    PartRunner runner(config_of(), weights, PackMode::kKeep, 3);
    EXPECT_EQ(load(runner).run(x), together) << name_of(type);
    for (std::int64_t t = 0; t < kTokens; ++t) {
      const auto alone =
          runner.run(std::span(x).subspan(static_cast<size_t>(t * kHidden), kHidden));
      EXPECT_TRUE(std::equal(alone.begin(), alone.end(), together.begin() + t * kHidden))
          << name_of(type) << " " << t;
    }
  }
}

// Experts that a token does not go to may hold anything: they are not read.
TEST(Moe, OneTokenReadsOnlyItsExperts) {
  MemoryWeights weights = weights_of(DType::kF32, DType::kF32);
  const auto x = random_rows(1, 13);
  PartRunner sound(config_of(), weights, PackMode::kKeep);
  const auto expected = load(sound).run(x);
  EXPECT_EQ(sound.part().idle_bytes(), 3 * kHidden * kInter * 4 * (kExperts - kSlots));
  std::vector<float> logits;
  for (std::int64_t e = 0; e < kExperts; ++e) {
    logits.push_back(static_cast<float>(
        dot(weights.row("blk.0.ffn_gate_inp.weight", e), std::vector<double>(x.begin(), x.end()))));
  }
  std::vector<std::int32_t> experts(kSlots);
  std::vector<float> weight(kSlots);
  route(config_of().routing, logits, {}, experts, weight);
  for (const char* name : {"gate_exps", "up_exps", "down_exps"}) {
    Stored& stored = weights.stored(std::string("blk.0.ffn_") + name + ".weight");
    const size_t bytes = stored.bytes.size() / kExperts;
    for (std::int32_t e = 0; e < kExperts; ++e) {
      if (std::ranges::find(experts, e) != experts.end()) continue;
      const auto begin =
          stored.bytes.begin() + static_cast<std::ptrdiff_t>(bytes * static_cast<size_t>(e));
      std::fill_n(begin, bytes, std::byte{0xFF});  // NaN
    }
  }
  PartRunner spoilt(config_of(), weights, PackMode::kKeep);
  EXPECT_EQ(load(spoilt).run(x), expected);
}

// What a token's router makes of a NaN stays with that token.
TEST(Moe, ANaNStaysWithItsToken) {
  const MemoryWeights weights = weights_of(DType::kQ8_0, DType::kQ8_0);
  PartRunner runner(config_of(), weights, PackMode::kKeep);
  auto x = random_rows(3, 14);
  const auto expected = load(runner).run(x);
  x[kHidden + 5] = std::numeric_limits<float>::quiet_NaN();
  const auto out = runner.run(x);
  EXPECT_TRUE(std::equal(out.begin(), out.begin() + kHidden, expected.begin()));
  EXPECT_TRUE(std::equal(out.begin() + 2 * kHidden, out.end(), expected.begin() + 2 * kHidden));
  EXPECT_TRUE(std::isnan(out[kHidden]));
}

}  // namespace
}  // namespace quern::model
