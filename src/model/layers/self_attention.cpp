#include "model/layers/self_attention.h"

#include <algorithm>
#include <cmath>

#include "model/layers/decoder.h"

namespace quern::model {
namespace {

using kernels::MatmulTarget;
using kernels::PackedMatrix;

// A projection of the input to heads of queries, keys or values.
struct Projection {
  PackedMatrix weight;      // [heads·dim, hidden]
  std::vector<float> bias;  // [heads·dim], or empty
  std::vector<float> norm;  // [dim], or empty
  std::int64_t heads = 0, dim = 0;
};

struct ProjectionNames {
  TensorName weight, bias, norm;
};
constexpr ProjectionNames kQuery = {{"self_attn.q_proj.weight", "attn_q.weight"},
                                    {"self_attn.q_proj.bias", "attn_q.bias"},
                                    {"self_attn.q_norm.weight", "attn_q_norm.weight"}};
constexpr ProjectionNames kKey = {{"self_attn.k_proj.weight", "attn_k.weight"},
                                  {"self_attn.k_proj.bias", "attn_k.bias"},
                                  {"self_attn.k_norm.weight", "attn_k_norm.weight"}};
constexpr ProjectionNames kValue = {
    {"self_attn.v_proj.weight", "attn_v.weight"}, {"self_attn.v_proj.bias", "attn_v.bias"}, {}};
constexpr TensorName kOutput = {"self_attn.o_proj.weight", "attn_output.weight"};

Projection load(const LayerLoader& layer, const ProjectionNames& names, std::int64_t heads,
                std::int64_t dim, bool bias, bool norm) {
  Projection loaded;
  loaded.heads = heads;
  loaded.dim = dim;
  loaded.weight = layer.matrix(names.weight, heads * dim, layer.config.hidden);
  if (bias) loaded.bias = layer.vector(names.bias, heads * dim);
  if (norm) loaded.norm = layer.vector(names.norm, dim);
  return loaded;
}

struct Buffers {
  Buffers(Scratch scratch, std::int64_t tokens, const ModelConfig& c)
      : q(scratch.take<float>(tokens * c.heads * c.head_dim)),
        k(scratch.take<float>(tokens * c.kv_heads * c.head_dim)),
        v(scratch.take<float>(tokens * c.kv_heads * c.v_head_dim)),
        attended(scratch.take<float>(tokens * c.heads * c.v_head_dim)),
        counted(scratch) {}

  float *q, *k, *v, *attended;  // [tokens, heads, dim]
  Scratch counted;
};

class SelfAttention final : public Attention {
 public:
  SelfAttention(const LayerLoader& layer, const SelfAttentionFeatures& features)
      : config_(layer.config), workspace_(layer.workspace) {
    const ModelConfig& c = config_;
    const bool biases = features.biases, norm = features.head_norm;
    q_ = load(layer, kQuery, c.heads, c.head_dim, biases, norm);
    k_ = load(layer, kKey, c.kv_heads, c.head_dim, biases, norm);
    v_ = load(layer, kValue, c.kv_heads, c.v_head_dim, biases, false);
    output_ = layer.matrix(kOutput, c.hidden, c.heads * c.v_head_dim);
    shape_ = {.layer = static_cast<std::int32_t>(layer.index),
              .heads = static_cast<std::int32_t>(c.heads),
              .kv_heads = static_cast<std::int32_t>(c.kv_heads),
              .head_dim = static_cast<std::int32_t>(c.head_dim),
              .v_head_dim = static_cast<std::int32_t>(c.v_head_dim),
              .scale = 1.0f / std::sqrt(static_cast<float>(c.head_dim)),
              .window = static_cast<std::int32_t>(c.window_of(layer.index)),
              .soft_cap = static_cast<float>(c.attention_soft_cap)};
    workspace_.reserve(Buffers({}, workspace_.max_tokens(), c).counted,
                       std::max(c.hidden, c.heads * c.v_head_dim));
  }

  void forward(const Step& step, const float* x, float* out) override {
    const std::int64_t tokens = step.tokens();
    const Buffers at(workspace_.scratch(), tokens, config_);
    const MatmulTarget qkv[] = {{&q_.weight, at.q}, {&k_.weight, at.k}, {&v_.weight, at.v}};
    workspace_.matmul()(x, tokens, qkv);
    workspace_.each_row(tokens, [&](std::int64_t t) {
      step.rope.rotate(t, finish(q_, at.q, t), q_.heads, q_.dim);
      step.rope.rotate(t, finish(k_, at.k, t), k_.heads, k_.dim);
      finish(v_, at.v, t);
    });
    step.backend.forward(shape_, at.q, at.k, at.v, step.store, at.attended);
    const MatmulTarget output[] = {{&output_, out}};
    workspace_.matmul()(at.attended, tokens, output);
  }

 private:
  // Bias and norm of a token's heads; returns them.
  float* finish(const Projection& projection, float* rows, std::int64_t token) const {
    const std::int64_t count = projection.heads * projection.dim;
    float* heads = rows + token * count;
    const kernels::Ops& ops = workspace_.ops();
    if (!projection.bias.empty()) ops.add(heads, projection.bias.data(), count);
    if (!projection.norm.empty()) {
      ops.rms_norm(heads, projection.norm.data(), static_cast<float>(config_.rms_norm_eps),
                   projection.heads, projection.dim, heads);
    }
    return heads;
  }

  const ModelConfig& config_;
  Workspace& workspace_;
  Projection q_, k_, v_;
  PackedMatrix output_;  // [hidden, heads·v_dim]
  attention::AttentionLayer shape_;
};

}  // namespace

void check_self_attention(const ModelConfig& config) {
  if (config.attention_bias) feature_not_served(config, "attention biases");
  if (config.attention_sinks) feature_not_served(config, "attention sinks");
  if (config.attention_output_gate) feature_not_served(config, "a gate on the attention's output");
  const std::int64_t plain =
      config.layers_of(LayerKind::kFull) + config.layers_of(LayerKind::kWindow);
  if (plain != config.layers) {
    feature_not_served(config, fmt::format("{} layers of chunked, linear or cross attention",
                                           config.layers - plain));
  }
  if (config.heads % config.kv_heads != 0) {
    config_mismatch(config, fmt::format("{} query heads are no multiple of {} key/value heads",
                                        config.heads, config.kv_heads));
  }
  if (config.rope_dim <= 0 || config.rope_dim > config.head_dim || config.rope_dim % 2 != 0) {
    config_mismatch(
        config, fmt::format("{} rotated dims of heads of {}", config.rope_dim, config.head_dim));
  }
}

std::unique_ptr<Attention> load_self_attention(const LayerLoader& layer,
                                               const SelfAttentionFeatures& features) {
  return std::make_unique<SelfAttention>(layer, features);
}

}  // namespace quern::model
