#include "model/families/llama.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/errors/model.h"
#include "base/log.h"
#include "kernels/decode_blocks.h"
#include "kernels/matmul.h"
#include "model/layers/rope.h"
#include "model/weights.h"

namespace quern::model {
namespace {

using kernels::MatmulTarget;
using kernels::PackedMatrix;

constexpr std::string_view kArchitectures[] = {"LlamaForCausalLM"};

struct Layer {
  std::vector<float> attention_norm, mlp_norm;  // [hidden]
  PackedMatrix q, k, v, o;      // [heads·dim, hidden] …, o [hidden, heads·v_dim]
  PackedMatrix gate, up, down;  // [inter, hidden], [inter, hidden], [hidden, inter]
};

// Tensor names: Hugging Face's and GGUF's.
struct Names {
  const char *embedding, *norm, *head, *layer;
  const char *attention_norm, *mlp_norm, *q, *k, *v, *o, *gate, *up, *down;
};
constexpr Names kHuggingFaceNames = {
    "model.embed_tokens.weight", "model.norm.weight",       "lm_head.weight",
    "model.layers.{}.",          "input_layernorm.weight",  "post_attention_layernorm.weight",
    "self_attn.q_proj.weight",   "self_attn.k_proj.weight", "self_attn.v_proj.weight",
    "self_attn.o_proj.weight",   "mlp.gate_proj.weight",    "mlp.up_proj.weight",
    "mlp.down_proj.weight"};
constexpr Names kGgufNames = {
    "token_embd.weight", "output_norm.weight", "output.weight",   "blk.{}.",
    "attn_norm.weight",  "ffn_norm.weight",    "attn_q.weight",   "attn_k.weight",
    "attn_v.weight",     "attn_output.weight", "ffn_gate.weight", "ffn_up.weight",
    "ffn_down.weight"};

void check(const ModelConfig& config) {
  const auto mismatch = [&](std::string what) {
    throw Error(errors::kModelConfigMismatch,
                {{"what", std::move(what)}, {"origin", config.origin}});
  };
  const auto not_served = [&](std::string feature) {
    throw Error(errors::kModelFeatureNotServed, {{"architecture", config.architecture},
                                                 {"feature", std::move(feature)},
                                                 {"origin", config.origin}});
  };
  if (config.activation != "silu") not_served("activation '" + config.activation + "'");
  if (config.attention_bias) not_served("attention biases");
  if (config.mlp_bias) not_served("feed-forward biases");
  if (config.experts > 0) not_served(fmt::format("{} experts", config.experts));
  for (const auto& [name, value] : {std::pair{"heads", config.heads},
                                    {"kv_heads", config.kv_heads},
                                    {"layers", config.layers},
                                    {"hidden", config.hidden},
                                    {"head_dim", config.head_dim},
                                    {"inter", config.inter},
                                    {"vocab", config.vocab},
                                    {"max_position_embeddings", config.context_length}}) {
    if (value <= 0) mismatch(fmt::format("{} is {}", name, value));
  }
  if (config.heads % config.kv_heads != 0) {
    mismatch(fmt::format("{} query heads are no multiple of {} key/value heads", config.heads,
                         config.kv_heads));
  }
  if (config.rope_dim <= 0 || config.rope_dim > config.head_dim || config.rope_dim % 2 != 0) {
    mismatch(fmt::format("{} rotated dims of heads of {}", config.rope_dim, config.head_dim));
  }
  Rope::check(config);
}

class Llama final : public Model {
 public:
  Llama(const checkpoint::Metadata& metadata, const checkpoint::Weights& weights, ThreadPool& pool,
        const LoadOptions& options)
      : config_(metadata.config),
        pool_(pool),
        ops_(kernels::ops()),
        rope_(config_, rope_factors(weights)),
        matmul_(pool, std::max(options.max_tokens, options.max_rows),
                std::max({config_.hidden, config_.heads * config_.v_head_dim, config_.inter})) {
    load(metadata, weights, options);
    const auto floats = [](std::int64_t count) {
      return kernels::AlignedBuffer(count * static_cast<std::int64_t>(sizeof(float)));
    };
    const std::int64_t tokens = options.max_tokens;
    x_ = floats(tokens * config_.hidden);
    normed_ = floats(std::max(tokens, options.max_rows) * config_.hidden);
    q_ = floats(tokens * config_.heads * config_.head_dim);
    k_ = floats(tokens * config_.kv_heads * config_.head_dim);
    v_ = floats(tokens * config_.kv_heads * config_.v_head_dim);
    attended_ = floats(tokens * config_.heads * config_.v_head_dim);
    gate_ = floats(tokens * config_.inter);
    up_ = floats(tokens * config_.inter);
  }

  std::int64_t vocab() const override { return config_.vocab; }
  std::int64_t weight_bytes() const override { return weight_bytes_; }
  std::int64_t decode_bytes() const override {
    return head_ ? weight_bytes_ - embedding_.data.size() : weight_bytes_;
  }

  void forward(const Batch& batch, attention::AttentionBackend& backend, cache::KvStore& store,
               float* logits) override {
    float* x = at(x_);  // [tokens, hidden], the residual stream
    each_row(batch.tokens(), [&](std::int64_t t) {
      kernels::unpack_row(embedding_, batch.token_ids[static_cast<size_t>(t)],
                          x + t * config_.hidden);
    });
    rope_.plan(batch.positions);
    backend.plan(batch);
    for (size_t layer = 0; layer < layers_.size(); ++layer) {
      attention_block(batch, layer, backend, store);
      mlp_block(batch, layers_[layer]);
    }
    float* last = at(normed_);  // [rows, hidden]
    each_row(batch.rows(), [&](std::int64_t r) {
      ops_.rms_norm(x + batch.logit_rows[static_cast<size_t>(r)] * config_.hidden, norm_.data(),
                    eps(), 1, config_.hidden, last + r * config_.hidden);
    });
    const MatmulTarget target[] = {{head_ ? &*head_ : &embedding_, logits}};
    matmul_(last, batch.rows(), target);
  }

 private:
  static float* at(const kernels::AlignedBuffer& buffer) {
    return reinterpret_cast<float*>(buffer.data());
  }
  float eps() const { return static_cast<float>(config_.rms_norm_eps); }

  static std::vector<float> rope_factors(const checkpoint::Weights& weights) {
    const auto tensor = weights.find("rope_freqs.weight");
    if (!tensor) return {};
    std::vector<float> factors(static_cast<size_t>(tensor->columns()));
    kernels::decode(tensor->info->dtype, tensor->data, tensor->columns(), factors.data());
    return factors;
  }

  void load(const checkpoint::Metadata& metadata, const checkpoint::Weights& weights,
            const LoadOptions& options) {
    const Names& names =
        metadata.format == checkpoint::Format::kGguf ? kGgufNames : kHuggingFaceNames;
    WeightLoader loader(weights, pool_, options);
    const ModelConfig& c = config_;
    loader.refuse_layers_beyond(names.layer, c);
    embedding_ = loader.matrix(names.embedding, c.vocab, c.hidden);
    norm_ = loader.vector(names.norm, c.hidden);
    if (!c.tied_embeddings) {
      head_ = loader.matrix(names.head, c.vocab, c.hidden);
    } else if (loader.has(names.head)) {
      log().warn("{} holds '{}' though the embeddings are tied: the embedding is used",
                 weights.origin(), names.head);
    }
    for (std::int64_t i = 0; i < c.layers; ++i) {
      const std::string prefix = fmt::format(fmt::runtime(names.layer), i);
      const std::int64_t q_rows = c.heads * c.head_dim, k_rows = c.kv_heads * c.head_dim;
      Layer layer;
      layer.attention_norm = loader.vector(prefix + names.attention_norm, c.hidden);
      layer.q = loader.matrix(prefix + names.q, q_rows, c.hidden);
      layer.k = loader.matrix(prefix + names.k, k_rows, c.hidden);
      layer.v = loader.matrix(prefix + names.v, c.kv_heads * c.v_head_dim, c.hidden);
      layer.o = loader.matrix(prefix + names.o, c.hidden, c.heads * c.v_head_dim);
      layer.mlp_norm = loader.vector(prefix + names.mlp_norm, c.hidden);
      layer.gate = loader.matrix(prefix + names.gate, c.inter, c.hidden);
      layer.up = loader.matrix(prefix + names.up, c.inter, c.hidden);
      layer.down = loader.matrix(prefix + names.down, c.hidden, c.inter);
      layers_.push_back(std::move(layer));
    }
    weight_bytes_ = loader.packed_bytes();
  }

  // f(row) for every row; over the pool where there are enough of them to be worth a fork.
  template <typename F>
  void each_row(std::int64_t rows, F f) {
    const std::int64_t grain = rows < 4 ? rows : pool_.even_grain(rows);
    pool_.for_each(rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) f(row);
    });
  }

  void norm(std::int64_t tokens, const std::vector<float>& weight) {
    each_row(tokens, [&](std::int64_t t) {
      ops_.rms_norm(at(x_) + t * config_.hidden, weight.data(), eps(), 1, config_.hidden,
                    at(normed_) + t * config_.hidden);
    });
  }

  void attention_block(const Batch& batch, size_t index, attention::AttentionBackend& backend,
                       cache::KvStore& store) {
    const Layer& layer = layers_[index];
    const std::int64_t tokens = batch.tokens();
    norm(tokens, layer.attention_norm);
    const MatmulTarget qkv[] = {{&layer.q, at(q_)}, {&layer.k, at(k_)}, {&layer.v, at(v_)}};
    matmul_(at(normed_), tokens, qkv);
    each_row(tokens, [&](std::int64_t t) {
      rope_.rotate(t, at(q_) + t * config_.heads * config_.head_dim, config_.heads,
                   config_.head_dim);
      rope_.rotate(t, at(k_) + t * config_.kv_heads * config_.head_dim, config_.kv_heads,
                   config_.head_dim);
    });
    const attention::AttentionLayer shape{
        .layer = static_cast<std::int32_t>(index),
        .heads = static_cast<std::int32_t>(config_.heads),
        .kv_heads = static_cast<std::int32_t>(config_.kv_heads),
        .head_dim = static_cast<std::int32_t>(config_.head_dim),
        .v_head_dim = static_cast<std::int32_t>(config_.v_head_dim),
        .scale = 1.0f / std::sqrt(static_cast<float>(config_.head_dim)),
        .window = static_cast<std::int32_t>(config_.sliding_window),
        .soft_cap = static_cast<float>(config_.attention_soft_cap)};
    backend.forward(shape, at(q_), at(k_), at(v_), store, at(attended_));
    const MatmulTarget out[] = {{&layer.o, at(normed_)}};
    matmul_(at(attended_), tokens, out);
    add_to_residual(tokens);
  }

  void mlp_block(const Batch& batch, const Layer& layer) {
    const std::int64_t tokens = batch.tokens();
    norm(tokens, layer.mlp_norm);
    const MatmulTarget gate_up[] = {{&layer.gate, at(gate_)}, {&layer.up, at(up_)}};
    matmul_(at(normed_), tokens, gate_up);
    each_row(tokens, [&](std::int64_t t) {
      const std::int64_t begin = t * config_.inter;
      ops_.silu_mul(at(gate_) + begin, at(up_) + begin, config_.inter, at(gate_) + begin);
    });
    const MatmulTarget down[] = {{&layer.down, at(normed_)}};
    matmul_(at(gate_), tokens, down);
    add_to_residual(tokens);
  }

  void add_to_residual(std::int64_t tokens) {
    each_row(tokens, [&](std::int64_t t) {
      ops_.add(at(x_) + t * config_.hidden, at(normed_) + t * config_.hidden, config_.hidden);
    });
  }

  ModelConfig config_;
  ThreadPool& pool_;
  const kernels::Ops& ops_;
  Rope rope_;
  kernels::Matmul matmul_;
  PackedMatrix embedding_;            // [vocab, hidden]
  std::optional<PackedMatrix> head_;  // [vocab, hidden]; none where tied
  std::vector<float> norm_;           // [hidden]
  std::vector<Layer> layers_;
  std::int64_t weight_bytes_ = 0;
  // Activations of a step, f32: [tokens, …].
  kernels::AlignedBuffer x_, normed_, q_, k_, v_, attended_, gate_, up_;
};

std::unique_ptr<Model> load(const checkpoint::Metadata& metadata,
                            const checkpoint::Weights& weights, ThreadPool& pool,
                            const LoadOptions& options) {
  return std::make_unique<Llama>(metadata, weights, pool, options);
}

}  // namespace

Family llama_family() { return {.architectures = kArchitectures, .check = check, .load = load}; }

}  // namespace quern::model
