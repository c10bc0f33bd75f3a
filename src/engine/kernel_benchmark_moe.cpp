// Routed experts of the widths of Qwen3's, as the model calls them: router, grouping, quantising
// and the weighted sum included. Tokens differ, so that a step reads other experts than the one
// before.

#include <fmt/format.h>

#include <bitset>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "attention/registry.h"
#include "cache/kv_store.h"
#include "engine/kernel_benchmark.h"
#include "engine/kernel_benchmark_data.h"
#include "model/layers/moe.h"
#include "model/layers/moe_router.h"

namespace quern::engine {
namespace {

constexpr std::int64_t kHidden = 2048, kInter = 768, kExperts = 64, kSlots = 8;
constexpr std::int64_t kRows[] = {1, 8, 64, 512};
constexpr std::int64_t kTokens = kRows[3];

// One layer's tensors by their names in a Hugging Face folder. All experts are the same bytes;
// packed, each stands by itself.
class RandomExperts final : public checkpoint::Weights {
 public:
  explicit RandomExperts(DType type)
      : expert_(random_weights(type, kInter * kHidden, 11)),
        router_(random_weights(DType::kF32, kExperts * kHidden, 12)) {
    const auto bytes = static_cast<std::int64_t>(expert_.size());
    tensors_ = {{"into", type, {kInter, kHidden}, bytes},
                {"out of", type, {kHidden, kInter}, bytes},
                {"router", DType::kF32, {kExperts, kHidden}, kExperts * kHidden * 4}};
  }

  const std::vector<TensorInfo>& tensors() const override { return tensors_; }
  std::optional<TensorView> find(std::string_view name) const override {
    if (name.ends_with("mlp.gate.weight")) return TensorView{&tensors_[2], router_.data()};
    const bool down = name.find("down_proj") != std::string_view::npos;
    return TensorView{&tensors_[down ? 1 : 0], expert_.data()};
  }
  void release(const TensorView&) const override {}
  std::string origin() const override { return "random experts"; }

  // Of an expert's three matrices, as stored.
  double expert_bytes() const { return 3.0 * static_cast<double>(expert_.size()); }
  // [kHidden] of the router.
  std::span<const float> router_row(std::int64_t expert) const {
    return {reinterpret_cast<const float*>(router_.data()) + expert * kHidden, kHidden};
  }

 private:
  std::vector<std::byte> expert_, router_;
  std::vector<TensorInfo> tensors_;
};

ModelConfig experts_config() {
  ModelConfig config;
  config.hidden = kHidden;
  config.experts = kExperts;
  config.experts_per_token = kSlots;
  config.moe_inter = kInter;
  config.rope_dim = 2;
  return config;
}

class Experts {
 public:
  Experts(ThreadPool& pool, DType type)
      : type_(type),
        weights_(type),
        loader_(weights_, pool, options_, model::LoadPass::kPack),
        workspace_(pool, kTokens, 1),
        backend_(attention::find_backend("torch_native").create(pool)),
        store_(cache::rows_layout(DType::kF32, 16, 1, 16, 16), 1, 1),
        x_(random_inputs(kTokens * kHidden)),
        out_(x_.size()) {
    part_ = model::load_moe(model::LayerLoader(config_, loader_, workspace_, false, 0));
    workspace_.allocate();
    for (std::int64_t t = 0; t < kTokens; ++t) route(t);
  }

  KernelCase product(std::int64_t rows) {
    return {
        .kernel = fmt::format("experts {}", name_of(type_)),
        .shape = fmt::format("{} of {}, {} x {}, M = {}", kSlots, kExperts, kHidden, kInter, rows),
        .bytes = active_experts(rows) * weights_.expert_bytes(),
        .operations = 2.0 * 3 * kHidden * kInter * kSlots * static_cast<double>(rows),
        .arithmetic = arithmetic_of(packed_format(type_, kernels::PackMode::kKeep)),
        .run = [this, rows] { run(rows); }};
  }

 private:
  using Picked = std::bitset<kExperts>;

  void route(std::int64_t token) {
    const float* x = x_.data() + token * kHidden;
    std::vector<float> logits;
    for (std::int64_t e = 0; e < kExperts; ++e) {
      float sum = 0;
      for (std::int64_t i = 0; i < kHidden; ++i) sum += x[i] * weights_.router_row(e)[i];
      logits.push_back(sum);
    }
    std::int32_t experts[kSlots];
    float weights[kSlots];
    model::route(config_.routing, logits, {}, experts, weights);
    Picked& picked = picked_.emplace_back();
    for (const std::int32_t e : experts) picked.set(static_cast<size_t>(e));
  }

  // How many of them a run of so many rows reads; the mean of the runs.
  double active_experts(std::int64_t rows) const {
    double active = 0;
    for (std::int64_t first = 0; first < kTokens; first += rows) {
      Picked any;
      for (std::int64_t t = first; t < first + rows; ++t) any |= picked_[static_cast<size_t>(t)];
      active += static_cast<double>(any.count());
    }
    return active * static_cast<double>(rows) / kTokens;
  }

  void run(std::int64_t rows) {
    const std::int64_t first = next_++ * rows % kTokens;
    batch_.token_ids.resize(static_cast<size_t>(rows));
    part_->forward({batch_, *backend_, store_, rope_}, x_.data() + first * kHidden, out_.data());
  }

  const DType type_;
  const ModelConfig config_ = experts_config();
  const model::LoadOptions options_;
  const RandomExperts weights_;
  model::WeightLoader loader_;
  model::Workspace workspace_;
  // A step has them; experts do not look at them.
  std::unique_ptr<attention::AttentionBackend> backend_;
  cache::KvStore store_;
  model::Rope rope_{config_, {}};
  Batch batch_;
  std::vector<float> x_, out_;  // [kTokens, kHidden]
  std::unique_ptr<model::FeedForward> part_;
  std::vector<Picked> picked_;  // [kTokens]
  std::int64_t next_ = 0;
};

}  // namespace

void expert_cases(ThreadPool& pool, const std::string& only, const CaseSink& sink) {
  for (const DType type : {DType::kQ4_K, DType::kQ8_0, DType::kBF16}) {
    if (fmt::format("experts {}", name_of(type)).find(only) == std::string::npos) continue;
    Experts experts(pool, type);
    for (const std::int64_t rows : kRows) sink(experts.product(rows));
  }
}

}  // namespace quern::engine
