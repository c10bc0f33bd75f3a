#include "model/layers/decoder.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/errors/model.h"
#include "base/log.h"
#include "kernels/decode_blocks.h"

namespace quern::model {
namespace {

using kernels::MatmulTarget;
using kernels::PackedMatrix;

constexpr TensorName kEmbedding = {"model.embed_tokens.weight", "token_embd.weight"};
constexpr TensorName kNorm = {"model.norm.weight", "output_norm.weight"};
constexpr TensorName kHead = {"lm_head.weight", "output.weight"};
constexpr TensorName kLayer = {"model.layers.{}.", "blk.{}."};
constexpr TensorName kAttentionNorm = {"input_layernorm.weight", "attn_norm.weight"};
constexpr TensorName kFeedForwardNorm = {"post_attention_layernorm.weight", "ffn_norm.weight"};

struct Layer {
  std::vector<float> attention_norm, feed_forward_norm;  // [hidden]
  LayerParts parts;
};

struct DecoderWeights {
  PackedMatrix embedding;            // [vocab, hidden]
  std::optional<PackedMatrix> head;  // [vocab, hidden]; none where tied
  std::vector<float> norm;           // [hidden]
  std::vector<Layer> layers;
};

const char* name_of(const TensorName& tensor, bool gguf) {
  return gguf ? tensor.gguf : tensor.hugging_face;
}

DecoderWeights load_weights(const ModelConfig& c, bool gguf, WeightLoader& loader,
                            Workspace& workspace, const MakeLayer& make_layer) {
  DecoderWeights loaded;
  loader.refuse_layers_beyond(name_of(kLayer, gguf), c);
  loaded.embedding = loader.matrix(name_of(kEmbedding, gguf), c.vocab, c.hidden);
  loaded.norm = loader.vector(name_of(kNorm, gguf), c.hidden);
  if (!c.tied_embeddings) {
    loaded.head = loader.matrix(name_of(kHead, gguf), c.vocab, c.hidden);
  }
  for (std::int64_t i = 0; i < c.layers; ++i) {
    const LayerLoader from(c, loader, workspace, gguf, i);
    Layer& layer = loaded.layers.emplace_back();
    layer.attention_norm = from.vector(kAttentionNorm, c.hidden);
    layer.feed_forward_norm = from.vector(kFeedForwardNorm, c.hidden);
    layer.parts = make_layer(from);
  }
  return loaded;
}

std::vector<float> rope_factors(const checkpoint::Weights& weights) {
  const auto tensor = weights.find("rope_freqs.weight");
  if (!tensor) return {};
  std::vector<float> factors(static_cast<size_t>(tensor->columns()));
  kernels::decode(tensor->info->dtype, tensor->data, tensor->columns(), factors.data());
  return factors;
}

class Decoder final : public Model {
 public:
  Decoder(const checkpoint::Metadata& metadata, const checkpoint::Weights& weights,
          ThreadPool& pool, const LoadOptions& options, const MakeLayer& make_layer)
      : config_(metadata.config),
        rope_(config_, rope_factors(weights)),
        workspace_(pool, options.max_tokens, options.max_rows) {
    const bool gguf = metadata.format == checkpoint::Format::kGguf;
    if (config_.tied_embeddings && weights.find(name_of(kHead, gguf))) {
      log().warn("{} holds '{}' though the embeddings are tied: the embedding is used",
                 weights.origin(), name_of(kHead, gguf));
    }
    Workspace unused(pool, options.max_tokens, options.max_rows);
    WeightLoader checker(weights, pool, options, LoadPass::kCheck);
    load_weights(config_, gguf, checker, unused, make_layer);
    WeightLoader loader(weights, pool, options, LoadPass::kPack);
    weights_ = load_weights(config_, gguf, loader, workspace_, make_layer);
    weight_bytes_ = loader.weight_bytes();
    workspace_.reserve(Scratch(), config_.hidden);  // for the head
    workspace_.allocate();
    const std::int64_t row = config_.hidden * static_cast<std::int64_t>(sizeof(float));
    residual_ = kernels::AlignedBuffer(options.max_tokens * row);
    normed_ = kernels::AlignedBuffer(std::max(options.max_tokens, options.max_rows) * row);
    added_ = kernels::AlignedBuffer(options.max_tokens * row);
  }

  std::int64_t vocab() const override { return config_.vocab; }
  std::int64_t weight_bytes() const override { return weight_bytes_; }
  std::int64_t decode_bytes() const override {
    std::int64_t bytes = weights_.head ? weight_bytes_ - weights_.embedding.bytes() : weight_bytes_;
    for (const Layer& layer : weights_.layers) {
      bytes -= layer.parts.attention->idle_bytes() + layer.parts.feed_forward->idle_bytes();
    }
    return bytes;
  }

  void forward(const Batch& batch, attention::AttentionBackend& backend, cache::KvStore& store,
               float* logits) override {
    const std::int64_t tokens = batch.tokens();
    float* x = at(residual_);
    workspace_.each_row(tokens, [&](std::int64_t t) {
      kernels::unpack_row(weights_.embedding, batch.token_ids[static_cast<size_t>(t)],
                          x + t * config_.hidden);
    });
    rope_.plan(batch.positions);
    backend.plan(batch);
    const Step step{batch, backend, store, rope_};
    for (Layer& layer : weights_.layers) {
      norm(tokens, layer.attention_norm);
      layer.parts.attention->forward(step, at(normed_), at(added_));
      add_to_residual(tokens);
      norm(tokens, layer.feed_forward_norm);
      layer.parts.feed_forward->forward(step, at(normed_), at(added_));
      add_to_residual(tokens);
    }
    float* last = at(normed_);  // [rows, hidden]
    workspace_.each_row(batch.rows(), [&](std::int64_t r) {
      norm_row(x + batch.logit_rows[static_cast<size_t>(r)] * config_.hidden, weights_.norm,
               last + r * config_.hidden);
    });
    const MatmulTarget target[] = {{weights_.head ? &*weights_.head : &weights_.embedding, logits}};
    workspace_.matmul()(last, batch.rows(), target);
  }

 private:
  static float* at(const kernels::AlignedBuffer& buffer) {
    return reinterpret_cast<float*>(buffer.data());
  }

  void norm_row(const float* x, const std::vector<float>& weight, float* out) const {
    workspace_.ops().rms_norm(x, weight.data(), static_cast<float>(config_.rms_norm_eps), 1,
                              config_.hidden, out);
  }

  void norm(std::int64_t tokens, const std::vector<float>& weight) {
    workspace_.each_row(tokens, [&](std::int64_t t) {
      norm_row(at(residual_) + t * config_.hidden, weight, at(normed_) + t * config_.hidden);
    });
  }

  void add_to_residual(std::int64_t tokens) {
    workspace_.each_row(tokens, [&](std::int64_t t) {
      workspace_.ops().add(at(residual_) + t * config_.hidden, at(added_) + t * config_.hidden,
                           config_.hidden);
    });
  }

  ModelConfig config_;
  Rope rope_;
  Workspace workspace_;
  DecoderWeights weights_;
  std::int64_t weight_bytes_ = 0;
  // Of a step, [tokens, hidden] f32: the residual stream, its norm, what a part adds to it.
  kernels::AlignedBuffer residual_, normed_, added_;
};

}  // namespace

void config_mismatch(const ModelConfig& config, std::string what) {
  throw Error(errors::kModelConfigMismatch, {{"what", std::move(what)}, {"origin", config.origin}});
}

void feature_not_served(const ModelConfig& config, std::string feature) {
  throw Error(errors::kModelFeatureNotServed, {{"architecture", config.architecture},
                                               {"feature", std::move(feature)},
                                               {"origin", config.origin}});
}

void check_decoder(const ModelConfig& config) {
  if (config.activation != "silu") {
    feature_not_served(config, "activation '" + config.activation + "'");
  }
  if (config.mlp_bias) feature_not_served(config, "feed-forward biases");
  const WeightQuantization& stored = config.quantization;
  if (!stored.method.empty() && stored.method != "fp8") {
    feature_not_served(config, "weights stored as '" + stored.method + "'");
  }
  if (stored.method == "fp8" && stored.block_rows == 0) {
    feature_not_served(config, "fp8 weights without a weight_block_size");
  }
  for (const auto& [name, value] : {std::pair{"heads", config.heads},
                                    {"kv_heads", config.kv_heads},
                                    {"layers", config.layers},
                                    {"hidden", config.hidden},
                                    {"head_dim", config.head_dim},
                                    {"inter", config.inter},
                                    {"vocab", config.vocab},
                                    {"max_position_embeddings", config.context_length}}) {
    if (value <= 0) config_mismatch(config, fmt::format("{} is {}", name, value));
  }
  Rope::check(config);
}

std::unique_ptr<Model> load_decoder(const checkpoint::Metadata& metadata,
                                    const checkpoint::Weights& weights, ThreadPool& pool,
                                    const LoadOptions& options, const MakeLayer& make_layer) {
  return std::make_unique<Decoder>(metadata, weights, pool, options, make_layer);
}

}  // namespace quern::model
