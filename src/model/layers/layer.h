// The two halves of a decoder layer, and what they are made from. An attention and a feed-forward
// are replaceable parts: a family picks one of each for every layer (families/), the decoder calls
// them (decoder.h).
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "attention/backend.h"
#include "core/batch.h"
#include "model/layers/rope.h"
#include "model/layers/workspace.h"
#include "model/weights.h"

namespace quern::model {

// What a forward pass gives to every part.
struct Step {
  const Batch& batch;
  attention::AttentionBackend& backend;
  cache::KvStore& store;
  const Rope& rope;  // of the batch's positions

  std::int64_t tokens() const { return batch.tokens(); }
};

// Both read normalised rows x [tokens, hidden] and write what is added to the residual stream,
// out [tokens, hidden]; x and out do not overlap. The engine's thread.
class Attention {
 public:
  virtual ~Attention() = default;
  virtual void forward(const Step& step, const float* x, float* out) = 0;
  // Bytes of weights that a step of one token does not read.
  virtual std::int64_t idle_bytes() const { return 0; }
};

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual void forward(const Step& step, const float* x, float* out) = 0;
  // Bytes of weights that a step of one token does not read.
  virtual std::int64_t idle_bytes() const { return 0; }
};

// The parts of one layer.
struct LayerParts {
  std::unique_ptr<Attention> attention;
  std::unique_ptr<FeedForward> feed_forward;
};

// A tensor's name in a Hugging Face folder and in a GGUF file.
struct TensorName {
  const char *hugging_face, *gguf;
};

// The tensors of one layer, by the names of the checkpoint's format; what the parts are made from.
// `config` and `workspace` live as long as the model, so that parts may refer to them.
class LayerLoader {
 public:
  LayerLoader(const ModelConfig& config, WeightLoader& weights, Workspace& workspace, bool gguf,
              std::int64_t index)
      : config(config), workspace(workspace), index(index), gguf(gguf), weights_(weights) {}

  const ModelConfig& config;
  Workspace& workspace;
  const std::int64_t index;  // of the layer
  const bool gguf;

  WeightLoader& weights() const { return weights_; }
  std::string name(const TensorName& tensor) const {
    return gguf ? fmt::format("blk.{}.{}", index, tensor.gguf)
                : fmt::format("model.layers.{}.{}", index, tensor.hugging_face);
  }
  // Throw: as WeightLoader's.
  kernels::PackedMatrix matrix(const TensorName& tensor, std::int64_t outputs,
                               std::int64_t k) const {
    return weights_.matrix(name(tensor), outputs, k);
  }
  kernels::PackedMatrix f32_matrix(const TensorName& tensor, std::int64_t outputs,
                                   std::int64_t k) const {
    return weights_.f32_matrix(name(tensor), outputs, k);
  }
  std::vector<float> vector(const TensorName& tensor, std::int64_t count) const {
    return weights_.vector(name(tensor), count);
  }

 private:
  WeightLoader& weights_;
};

}  // namespace quern::model
