#include "model/layers/moe.h"

#include <algorithm>

#include "model/layers/decoder.h"
#include "model/layers/moe_router.h"

namespace quern::model {
namespace {

using kernels::ActivationKind;
using kernels::kPanel;
using kernels::MatmulTarget;
using kernels::PackedMatrix;

constexpr std::int64_t kBlockPanels = 4;  // of an expert's outputs that a thread takes at a time
constexpr size_t kKinds = 3;              // of activations

struct Expert {
  PackedMatrix gate, up;  // [inter, hidden]
  PackedMatrix down;      // [hidden, inter]
};

// Rows of activations as the kernels want them, for each kind that some expert's weights need.
struct Prepared {
  bool needed[kKinds] = {};
  std::int64_t k = 0;

  void need(const PackedMatrix& weights) {
    needed[static_cast<size_t>(activation_of(weights.format))] = true;
    k = weights.k;
  }
  std::int64_t stride(size_t kind) const {
    return activation_row_bytes(static_cast<ActivationKind>(kind), k);
  }
};

// Where those rows stand in a step's scratch.
struct PreparedRows {
  PreparedRows(Scratch& scratch, const Prepared& prepared, std::int64_t rows) {
    for (size_t kind = 0; kind < kKinds; ++kind) {
      if (prepared.needed[kind]) at[kind] = scratch.take<std::byte>(rows * prepared.stride(kind));
    }
  }
  std::byte* at[kKinds] = {};
};

struct Shape {
  std::int64_t hidden, inter, experts, slots;  // slots: experts of a token
  Prepared input, middle;                      // of gate and up; of down
};

// A row is a token at one of its experts; rows of an expert stand together.
struct Buffers {
  Buffers(Scratch scratch, std::int64_t tokens, const Shape& s)
      : logits(scratch.take<float>(tokens * s.experts)),
        weights(scratch.take<float>(tokens * s.slots)),
        picked(scratch.take<std::int32_t>(tokens * s.slots)),
        row_of(scratch.take<std::int32_t>(tokens * s.slots)),
        token_of(scratch.take<std::int32_t>(tokens * s.slots)),
        begin(scratch.take<std::int32_t>(s.experts + 1)),
        active(scratch.take<std::int32_t>(s.experts)),
        input(scratch, s.input, tokens * s.slots),
        gate(scratch.take<float>(tokens * s.slots * s.inter)),
        up(scratch.take<float>(tokens * s.slots * s.inter)),
        middle(scratch, s.middle, tokens * s.slots),
        down(scratch.take<float>(tokens * s.slots * s.hidden)),
        counted(scratch) {}

  float* logits;           // [tokens, experts]
  float* weights;          // [tokens, slots]
  std::int32_t* picked;    // [tokens, slots] experts
  std::int32_t* row_of;    // [tokens, slots]
  std::int32_t* token_of;  // [rows]
  std::int32_t* begin;     // [experts + 1] first row of each
  std::int32_t* active;    // [active experts] those with rows
  PreparedRows input;      // [rows, hidden]
  float *gate, *up;        // [rows, inter]
  PreparedRows middle;     // [rows, inter]
  float* down;             // [rows, hidden]
  Scratch counted;
};

std::vector<PackedMatrix> load_experts(const LayerLoader& layer, const TensorName& tensor,
                                       std::int64_t outputs, std::int64_t k) {
  const std::int64_t experts = layer.config.experts;
  const std::string name = layer.name(tensor);
  if (layer.gguf) return layer.weights().matrices(name, experts, outputs, k);
  std::vector<PackedMatrix> loaded;
  for (std::int64_t e = 0; e < experts; ++e) {
    loaded.push_back(layer.weights().matrix(fmt::format(fmt::runtime(name), e), outputs, k));
  }
  return loaded;
}

class Moe final : public FeedForward {
 public:
  Moe(const LayerLoader& layer, const MoeNames& names)
      : workspace_(layer.workspace), routing_(layer.config.routing) {
    const ModelConfig& c = layer.config;
    shape_ = {.hidden = c.hidden,
              .inter = c.moe_inter,
              .experts = c.experts,
              .slots = c.experts_per_token,
              .input = {},
              .middle = {}};
    router_ = layer.f32_matrix(names.router, c.experts, c.hidden);
    if (routing_.method == "noaux_tc") {
      correction_bias_ = layer.vector(names.correction_bias, c.experts);
    }
    auto gate = load_experts(layer, names.gate, c.moe_inter, c.hidden);
    auto up = load_experts(layer, names.up, c.moe_inter, c.hidden);
    auto down = load_experts(layer, names.down, c.hidden, c.moe_inter);
    for (size_t e = 0; e < gate.size(); ++e) {
      Expert& expert =
          experts_.emplace_back(std::move(gate[e]), std::move(up[e]), std::move(down[e]));
      shape_.input.need(expert.gate);
      shape_.input.need(expert.up);
      shape_.middle.need(expert.down);
      expert_bytes_ += expert.gate.bytes() + expert.up.bytes() + expert.down.bytes();
    }
    if (c.shared_inter > 0) shared_ = load_mlp(layer, c.shared_inter, names.shared);
    workspace_.reserve(Buffers({}, workspace_.max_tokens(), shape_).counted,
                       std::max(c.hidden, c.moe_inter));
  }

  void forward(const Step& step, const float* x, float* out) override {
    if (shared_) shared_->forward(step, x, out);  // before this layer's own use of the scratch
    const std::int64_t tokens = step.tokens();
    const Buffers at(workspace_.scratch(), tokens, shape_);
    pick(x, tokens, at);
    const std::int64_t active = group(tokens, at);
    run_experts(x, tokens * shape_.slots, active, at);
    workspace_.each_row(tokens, [&](std::int64_t t) { add_up(t, at, out + t * shape_.hidden); });
  }

  std::int64_t idle_bytes() const override {
    return expert_bytes_ / shape_.experts * (shape_.experts - shape_.slots);
  }

 private:
  void pick(const float* x, std::int64_t tokens, const Buffers& at) {
    const MatmulTarget target[] = {{&router_, at.logits}};
    workspace_.matmul()(x, tokens, target);
    const auto slots = static_cast<size_t>(shape_.slots);
    workspace_.each_row(tokens, [&](std::int64_t t) {
      route(routing_, {at.logits + t * shape_.experts, static_cast<size_t>(shape_.experts)},
            correction_bias_, {at.picked + t * shape_.slots, slots},
            {at.weights + t * shape_.slots, slots});
    });
  }

  // Gives each token and slot its row, in the order of experts; returns how many have rows.
  std::int64_t group(std::int64_t tokens, const Buffers& at) const {
    const std::int64_t rows = tokens * shape_.slots;
    std::fill_n(at.begin, shape_.experts + 1, 0);
    for (std::int64_t i = 0; i < rows; ++i) ++at.begin[at.picked[i] + 1];
    std::int64_t active = 0;
    for (std::int64_t e = 0; e < shape_.experts; ++e) {
      if (at.begin[e + 1] > 0) at.active[active++] = static_cast<std::int32_t>(e);
      at.begin[e + 1] += at.begin[e];
    }
    for (std::int64_t i = 0; i < rows; ++i) {  // begin[e] runs to the end of e's rows
      const std::int32_t row = at.begin[at.picked[i]]++;
      at.row_of[i] = row;
      at.token_of[row] = static_cast<std::int32_t>(i / shape_.slots);
    }
    for (std::int64_t e = shape_.experts; e > 0; --e) at.begin[e] = at.begin[e - 1];
    at.begin[0] = 0;
    return active;
  }

  // All matrix products of the experts: down(silu(gate(x)) · up(x)) for every row.
  void run_experts(const float* x, std::int64_t rows, std::int64_t active, const Buffers& at) {
    const std::int64_t hidden = shape_.hidden, inter = shape_.inter;
    prepare(shape_.input, at.input, rows,
            [&](std::int64_t row) { return x + at.token_of[row] * hidden; });
    each_block(at, active, inter, [&](const Expert& expert, const Block& block, int thread) {
      multiply(expert.gate, shape_.input, at.input, block, at.gate, thread);
      multiply(expert.up, shape_.input, at.input, block, at.up, thread);
      const std::int64_t column = block.panel_begin * kPanel;
      const std::int64_t columns = std::min(inter, block.panel_end * kPanel) - column;
      for (std::int64_t row = block.row; row < block.row + block.rows; ++row) {
        float* gate = at.gate + row * inter + column;
        workspace_.ops().silu_mul(gate, at.up + row * inter + column, columns, gate);
      }
    });
    prepare(shape_.middle, at.middle, rows,
            [&](std::int64_t row) { return at.gate + row * inter; });
    each_block(at, active, hidden, [&](const Expert& expert, const Block& block, int thread) {
      multiply(expert.down, shape_.middle, at.middle, block, at.down, thread);
    });
  }

  // Some panels of an expert's outputs, for its rows.
  struct Block {
    std::int64_t row, rows;
    std::int64_t panel_begin, panel_end;
  };

  // f(expert, block, thread) for all `outputs` of all active experts, shared out over the threads.
  template <typename F>
  void each_block(const Buffers& at, std::int64_t active, std::int64_t outputs, F f) const {
    const std::int64_t panels = (outputs + kPanel - 1) / kPanel;
    const std::int64_t blocks = (panels + kBlockPanels - 1) / kBlockPanels;
    // Small chunks: experts differ in rows.
    const std::int64_t grain = (workspace_.pool().even_grain(active * blocks) + 3) / 4;
    workspace_.pool().for_each(active * blocks, grain,
                               [&](std::int64_t begin, std::int64_t end, int thread) {
                                 for (std::int64_t i = begin; i < end; ++i) {
                                   const std::int32_t e = at.active[i / blocks];
                                   const std::int64_t panel = i % blocks * kBlockPanels;
                                   f(experts_[static_cast<size_t>(e)],
                                     Block{at.begin[e], at.begin[e + 1] - at.begin[e], panel,
                                           std::min(panels, panel + kBlockPanels)},
                                     thread);
                                 }
                               });
  }

  template <typename RowOf>
  void prepare(const Prepared& prepared, const PreparedRows& to, std::int64_t rows, RowOf row_of) {
    workspace_.each_row(rows, [&](std::int64_t row) {
      for (size_t kind = 0; kind < kKinds; ++kind) {
        if (!prepared.needed[kind]) continue;
        const std::int64_t stride = prepared.stride(kind);
        workspace_.ops().prepare[kind](row_of(row), 1, prepared.k, to.at[kind] + row * stride,
                                       stride);
      }
    });
  }

  void multiply(const PackedMatrix& weights, const Prepared& prepared, const PreparedRows& from,
                const Block& block, float* out, int thread) const {
    const auto kind = static_cast<size_t>(activation_of(weights.format));
    workspace_.matmul().multiply({.weights = &weights,
                                  .activations = from.at[kind] + block.row * prepared.stride(kind),
                                  .rows = block.rows,
                                  .panel_begin = block.panel_begin,
                                  .panel_end = block.panel_end,
                                  .out = out + block.row * weights.outputs},
                                 thread);
  }

  // The outputs of a token's experts with their weights, in the order of slots; last, on top, what
  // the shared experts have left in `out`.
  void add_up(std::int64_t token, const Buffers& at, float* out) const {
    const std::int64_t hidden = shape_.hidden, first = token * shape_.slots;
    const auto row_at = [&](std::int64_t slot) {
      return at.down + at.row_of[first + slot] * hidden;
    };
    float* sum = row_at(0);
    for (std::int64_t h = 0; h < hidden; ++h) sum[h] *= at.weights[first];
    for (std::int64_t slot = 1; slot < shape_.slots; ++slot) {
      const float* row = row_at(slot);
      const float weight = at.weights[first + slot];
      for (std::int64_t h = 0; h < hidden; ++h) sum[h] += weight * row[h];
    }
    if (!shared_) {
      std::copy_n(sum, hidden, out);
    } else {
      workspace_.ops().add(out, sum, hidden);
    }
  }

  Workspace& workspace_;
  ExpertRouting routing_;
  Shape shape_;
  PackedMatrix router_;                 // [experts, hidden] f32
  std::vector<float> correction_bias_;  // [experts], or empty
  std::vector<Expert> experts_;
  std::unique_ptr<FeedForward> shared_;  // null where there is none
  std::int64_t expert_bytes_ = 0;
};

}  // namespace

void check_moe(const ModelConfig& config) {
  check_routing(config);
  if (config.moe_inter <= 0) {
    config_mismatch(config, fmt::format("the width of an expert is {}", config.moe_inter));
  }
}

std::unique_ptr<FeedForward> load_moe(const LayerLoader& layer, const MoeNames& names) {
  return std::make_unique<Moe>(layer, names);
}

}  // namespace quern::model
