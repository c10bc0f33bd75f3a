// Runs one feed-forward of a layer without a model, for tests of parts.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "attention/registry.h"
#include "cache/kv_store.h"
#include "model/layers/layer.h"

namespace quern::model {

class PartRunner {
 public:
  static constexpr std::int64_t kMaxTokens = 64;

  PartRunner(ModelConfig config, const checkpoint::Weights& weights, kernels::PackMode pack,
             int threads = 2)
      : config_(std::move(config)),
        pool_(threads),
        options_{.pack = pack, .max_tokens = kMaxTokens, .max_rows = 1, .on_progress = {}},
        loader_(weights, pool_, options_, LoadPass::kPack),
        workspace_(pool_, kMaxTokens, 1),
        backend_(attention::find_backend("torch_native").create(pool_)),
        store_(cache::rows_layout(DType::kF32, 16, 1, 16, 16), 1, 1) {}

  // make(layer) loads the part from the tensors of that layer.
  template <typename Make>
  void load(std::int64_t layer, bool gguf, Make make) {
    part_ = make(LayerLoader(config_, loader_, workspace_, gguf, layer));
    workspace_.allocate();
  }

  // x [tokens, hidden] → [tokens, hidden]
  std::vector<float> run(std::span<const float> x) {
    std::vector<float> out(x.size(), -1e30f);
    run(x, out);
    return out;
  }
  void run(std::span<const float> x, std::span<float> out) {
    batch_.token_ids.resize(x.size() / static_cast<size_t>(config_.hidden));
    part_->forward({batch_, *backend_, store_, rope_}, x.data(), out.data());
  }
  const FeedForward& part() const { return *part_; }

 private:
  static ModelConfig rope_config() {
    ModelConfig config;
    config.rope_dim = 2;
    return config;
  }

  ModelConfig config_;
  ThreadPool pool_;
  LoadOptions options_;
  WeightLoader loader_;
  Workspace workspace_;
  std::unique_ptr<attention::AttentionBackend> backend_;
  cache::KvStore store_;
  Rope rope_{rope_config(), {}};
  Batch batch_;
  std::unique_ptr<FeedForward> part_;
};

}  // namespace quern::model
