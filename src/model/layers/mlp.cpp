#include "model/layers/mlp.h"

#include <algorithm>

namespace quern::model {
namespace {

using kernels::MatmulTarget;
using kernels::PackedMatrix;

struct Buffers {
  Buffers(Scratch scratch, std::int64_t tokens, std::int64_t inter)
      : gate(scratch.take<float>(tokens * inter)),
        up(scratch.take<float>(tokens * inter)),
        counted(scratch) {}

  float *gate, *up;  // [tokens, inter]
  Scratch counted;
};

class Mlp final : public FeedForward {
 public:
  Mlp(const LayerLoader& layer, std::int64_t inter, const MlpNames& names)
      : workspace_(layer.workspace), inter_(inter) {
    const std::int64_t hidden = layer.config.hidden;
    gate_ = layer.matrix(names.gate, inter, hidden);
    up_ = layer.matrix(names.up, inter, hidden);
    down_ = layer.matrix(names.down, hidden, inter);
    workspace_.reserve(Buffers({}, workspace_.max_tokens(), inter).counted,
                       std::max(hidden, inter));
  }

  void forward(const Step& step, const float* x, float* out) override {
    const std::int64_t tokens = step.tokens();
    const Buffers at(workspace_.scratch(), tokens, inter_);
    const MatmulTarget gate_up[] = {{&gate_, at.gate}, {&up_, at.up}};
    workspace_.matmul()(x, tokens, gate_up);
    workspace_.each_row(tokens, [&](std::int64_t t) {
      float* gate = at.gate + t * inter_;
      workspace_.ops().silu_mul(gate, at.up + t * inter_, inter_, gate);
    });
    const MatmulTarget down[] = {{&down_, out}};
    workspace_.matmul()(at.gate, tokens, down);
  }

 private:
  Workspace& workspace_;
  std::int64_t inter_;
  PackedMatrix gate_, up_;  // [inter, hidden]
  PackedMatrix down_;       // [hidden, inter]
};

}  // namespace

std::unique_ptr<FeedForward> load_mlp(const LayerLoader& layer, std::int64_t inter,
                                      const MlpNames& names) {
  return std::make_unique<Mlp>(layer, inter, names);
}

}  // namespace quern::model
