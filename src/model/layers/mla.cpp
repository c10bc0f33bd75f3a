#include "model/layers/mla.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "kernels/head_matmul.h"
#include "model/layers/decoder.h"
#include "model/layers/mla_weights.h"

namespace quern::model {
namespace {

using attention::ExpandedLatents;
using attention::kExpandRows;
using kernels::MatmulTarget;
using kernels::PackedMatrix;

constexpr TensorName kQuery = {"self_attn.q_proj.weight", "attn_q.weight"};
constexpr TensorName kQueryDown = {"self_attn.q_a_proj.weight", "attn_q_a.weight"};
constexpr TensorName kQueryNorm = {"self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight"};
constexpr TensorName kQueryUp = {"self_attn.q_b_proj.weight", "attn_q_b.weight"};
constexpr TensorName kRow = {"self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight"};
constexpr TensorName kRowNorm = {"self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight"};
constexpr TensorName kOutput = {"self_attn.o_proj.weight", "attn_output.weight"};

// Of the two inner norms in all models of this attention, whatever the others have.
constexpr float kInnerNormEps = 1e-6f;

std::int64_t row_dim(const ModelConfig& c) { return c.kv_lora_rank + c.qk_rope_head_dim; }

struct Buffers {
  Buffers(Scratch scratch, std::int64_t tokens, const ModelConfig& c, const ThreadPool& pool)
      : keys(scratch.take<float>(kExpandRows * c.heads * c.qk_nope_head_dim)),
        values(scratch.take<float>(kExpandRows * c.heads * c.v_head_dim)),
        heads(scratch.take<std::byte>(
            kernels::head_scratch_bytes(pool, std::max(c.qk_nope_head_dim, c.kv_lora_rank)))),
        q_down(scratch.take<float>(tokens * c.q_lora_rank)),
        q(scratch.take<float>(tokens * c.heads * c.head_dim)),
        row(scratch.take<float>(tokens * row_dim(c))),
        q_absorbed(scratch.take<float>(tokens * c.heads * row_dim(c))),
        out_latent(scratch.take<float>(tokens * c.heads * c.kv_lora_rank)),
        attended(scratch.take<float>(tokens * c.heads * c.v_head_dim)),
        counted(scratch) {}

  // What is expanded, [kExpandRows, heads, dim]: first, to lie alike whatever the batch.
  float *keys, *values;
  std::byte* heads;                // of multiply_heads()
  float *q_down, *q, *row;         // [tokens, q_lora], [tokens, heads, head_dim], [tokens, row]
  float *q_absorbed, *out_latent;  // [tokens, heads, row], [tokens, heads, latent]
  float* attended;                 // [tokens, heads, v]
  Scratch counted;
};

class LatentAttention final : public Attention {
 public:
  LatentAttention(const LayerLoader& layer, bool only_absorbed)
      : config_(layer.config), workspace_(layer.workspace) {
    const ModelConfig& c = config_;
    const std::int64_t queries = c.heads * c.head_dim;
    if (c.q_lora_rank > 0) {
      q_down_ = layer.matrix(kQueryDown, c.q_lora_rank, c.hidden);
      q_norm_ = layer.vector(kQueryNorm, c.q_lora_rank);
      q_ = layer.matrix(kQueryUp, queries, c.q_lora_rank);
    } else {
      q_ = layer.matrix(kQuery, queries, c.hidden);
    }
    row_ = layer.matrix(kRow, row_dim(c), c.hidden);
    row_norm_ = layer.vector(kRowNorm, c.kv_lora_rank);
    up_ = load_latent_up_projection(layer);
    output_ = layer.matrix(kOutput, c.hidden, c.heads * c.v_head_dim);
    const double scale =
        latent_score_factor(c.rope_scaling) / std::sqrt(static_cast<double>(c.head_dim));
    shape_ = {.layer = static_cast<std::int32_t>(layer.index),
              .heads = static_cast<std::int32_t>(c.heads),
              .latent_dim = static_cast<std::int32_t>(c.kv_lora_rank),
              .rope_dim = static_cast<std::int32_t>(c.qk_rope_head_dim),
              .nope_dim = static_cast<std::int32_t>(c.qk_nope_head_dim),
              .v_head_dim = static_cast<std::int32_t>(c.v_head_dim),
              .scale = static_cast<float>(scale),
              .only_absorbed = only_absorbed};
    expand_ = [this](const float* latents, std::int64_t n) { return expand(latents, n); };
    workspace_.reserve(Buffers({}, workspace_.max_tokens(), c, workspace_.pool()).counted,
                       std::max({c.hidden, c.q_lora_rank, c.kv_lora_rank, c.heads * c.v_head_dim}),
                       kExpandRows);
  }
  LatentAttention(const LatentAttention&) = delete;  // expand_ holds this object

  void forward(const Step& step, const float* x, float* out) override {
    const std::int64_t tokens = step.tokens();
    const Buffers at = buffers(tokens);
    project(step, x, at);
    each_absorbed_run(step,
                      [&](std::int64_t begin, std::int64_t count) { absorb(at, begin, count); });
    step.backend.forward_mla(shape_,
                             {.row = at.row,
                              .q_absorbed = at.q_absorbed,
                              .q = at.q,
                              .expand = &expand_,
                              .out_latent = at.out_latent,
                              .out = at.attended},
                             step.store);
    each_absorbed_run(step, [&](std::int64_t begin, std::int64_t count) {
      leave_latent_space(at, begin, count);
    });
    const MatmulTarget output[] = {{&output_, out}};
    workspace_.matmul()(at.attended, tokens, output);
  }

  // A single token runs absorbed: nothing is expanded to keys.
  std::int64_t idle_bytes() const override { return up_.keys.data.size(); }

 private:
  Buffers buffers(std::int64_t tokens) const {
    return {workspace_.scratch(), tokens, config_, workspace_.pool()};
  }

  // Queries and cached rows of the batch's tokens, normed and rotated.
  void project(const Step& step, const float* x, const Buffers& at) {
    const ModelConfig& c = config_;
    const std::int64_t tokens = step.tokens();
    if (q_down_) {
      const MatmulTarget down[] = {{&*q_down_, at.q_down}, {&row_, at.row}};
      workspace_.matmul()(x, tokens, down);
      workspace_.each_row(tokens,
                          [&](std::int64_t t) { norm(at.q_down + t * c.q_lora_rank, q_norm_); });
      const MatmulTarget up[] = {{&q_, at.q}};
      workspace_.matmul()(at.q_down, tokens, up);
    } else {
      const MatmulTarget both[] = {{&q_, at.q}, {&row_, at.row}};
      workspace_.matmul()(x, tokens, both);
    }
    workspace_.each_row(tokens, [&](std::int64_t t) {
      float* row = at.row + t * row_dim(c);
      norm(row, row_norm_);
      step.rope.rotate(t, row + c.kv_lora_rank, 1, row_dim(c));
      step.rope.rotate(t, at.q + t * c.heads * c.head_dim + c.qk_nope_head_dim, c.heads,
                       c.head_dim);
    });
  }

  void norm(float* row, const std::vector<float>& weight) const {
    workspace_.ops().rms_norm(row, weight.data(), kInnerNormEps, 1, std::ssize(weight), row);
  }

  // f(first token, count) for runs of tokens whose sequences attend in the latent space.
  template <typename F>
  void each_absorbed_run(const Step& step, F f) const {
    std::int64_t begin = 0, end = 0;
    for (const SequenceSlice& sequence : step.batch.sequences) {
      if (attention::runs_expanded(shape_, sequence)) continue;
      if (sequence.query_begin != end) {
        if (end > begin) f(begin, end - begin);
        begin = sequence.query_begin;
      }
      end = sequence.query_begin + sequence.query_len;
    }
    if (end > begin) f(begin, end - begin);
  }

  void absorb(const Buffers& at, std::int64_t begin, std::int64_t count) {
    const ModelConfig& c = config_;
    const std::int64_t q_stride = c.heads * c.head_dim, out_stride = c.heads * row_dim(c);
    const float* q = at.q + begin * q_stride;
    float* absorbed = at.q_absorbed + begin * out_stride;
    kernels::multiply_heads(workspace_.pool(),
                            {.weights = &up_.absorb,
                             .heads = c.heads,
                             .x = q,
                             .x_row_stride = q_stride,
                             .x_head_stride = c.head_dim,
                             .out = absorbed,
                             .out_row_stride = out_stride,
                             .out_head_stride = row_dim(c)},
                            count, at.heads);
    workspace_.each_row(count, [&](std::int64_t t) {
      for (std::int64_t head = 0; head < c.heads; ++head) {
        std::memcpy(absorbed + t * out_stride + head * row_dim(c) + c.kv_lora_rank,
                    q + t * q_stride + head * c.head_dim + c.qk_nope_head_dim,
                    static_cast<size_t>(c.qk_rope_head_dim) * sizeof(float));
      }
    });
  }

  void leave_latent_space(const Buffers& at, std::int64_t begin, std::int64_t count) {
    const ModelConfig& c = config_;
    const std::int64_t stride = c.heads * c.kv_lora_rank, out_stride = c.heads * c.v_head_dim;
    kernels::multiply_heads(workspace_.pool(),
                            {.weights = &up_.values,
                             .heads = c.heads,
                             .x = at.out_latent + begin * stride,
                             .x_row_stride = stride,
                             .x_head_stride = c.kv_lora_rank,
                             .out = at.attended + begin * out_stride,
                             .out_row_stride = out_stride,
                             .out_head_stride = c.v_head_dim},
                            count, at.heads);
  }

  ExpandedLatents expand(const float* latents, std::int64_t n) {
    const ModelConfig& c = config_;
    const Buffers at = buffers(0);
    const MatmulTarget both[] = {{&up_.keys, at.keys}, {&up_.values, at.values}};
    workspace_.matmul()(latents, n, both);
    return {.k_nope = at.keys,
            .v = at.values,
            .k_token_stride = c.heads * c.qk_nope_head_dim,
            .k_head_stride = c.qk_nope_head_dim,
            .v_token_stride = c.heads * c.v_head_dim,
            .v_head_stride = c.v_head_dim};
  }

  const ModelConfig& config_;
  Workspace& workspace_;
  std::optional<PackedMatrix> q_down_;    // [q_lora, hidden]; none: q_ reads the input
  std::vector<float> q_norm_, row_norm_;  // [q_lora], [latent]
  PackedMatrix q_;                        // [heads·head_dim, q_lora or hidden]
  PackedMatrix row_;                      // [latent + rope, hidden]
  LatentUpProjection up_;
  PackedMatrix output_;  // [hidden, heads·v]
  attention::MlaLayer shape_;
  attention::ExpandLatents expand_;
};

}  // namespace

void check_mla(const ModelConfig& config) {
  const ModelConfig& c = config;
  if (c.attention_bias) feature_not_served(c, "attention biases");
  if (c.index_topk > 0) feature_not_served(c, "sparse attention by an indexer");
  if (c.layers_of(LayerKind::kFull) != c.layers) {
    feature_not_served(c, "latent attention within windows or chunks");
  }
  if (c.attention_soft_cap > 0) feature_not_served(c, "capped scores of latent attention");
  for (const auto& [name, value] : {std::pair{"kv_lora_rank", c.kv_lora_rank},
                                    {"qk_nope_head_dim", c.qk_nope_head_dim},
                                    {"qk_rope_head_dim", c.qk_rope_head_dim},
                                    {"v_head_dim", c.v_head_dim}}) {
    if (value <= 0) config_mismatch(c, fmt::format("{} is {}", name, value));
  }
  if (c.qk_rope_head_dim % 2 != 0 || c.rope_dim != c.qk_rope_head_dim ||
      c.head_dim != c.qk_nope_head_dim + c.qk_rope_head_dim) {
    config_mismatch(c, fmt::format("{} rotated and {} other dims of heads of {}",
                                   c.qk_rope_head_dim, c.qk_nope_head_dim, c.head_dim));
  }
  if (c.kv_lora_rank % kernels::kPanel != 0 || c.v_head_dim % kernels::kPanel != 0) {
    feature_not_served(c, fmt::format("latent attention of {} and {} dims (multiples of {} are)",
                                      c.kv_lora_rank, c.v_head_dim, kernels::kPanel));
  }
}

std::unique_ptr<Attention> load_mla(const LayerLoader& layer, bool only_absorbed) {
  return std::make_unique<LatentAttention>(layer, only_absorbed);
}

}  // namespace quern::model
