// A loaded model: weights packed for this machine, and the forward pass over one ragged batch. The
// engine calls it once a step; it calls the attention backend once a layer. The engine's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>

#include "attention/backend.h"
#include "base/threads.h"
#include "checkpoint/checkpoint.h"
#include "core/batch.h"
#include "kernels/packed_matrix.h"

namespace quern::model {

class Model {
 public:
  virtual ~Model() = default;

  // Runs the batch: stores its keys and values, and writes the logits of batch.logit_rows.
  // logits [rows, vocab] f32. Requires: tokens and rows within LoadOptions' limits.
  virtual void forward(const Batch& batch, attention::AttentionBackend& backend,
                       cache::KvStore& store, float* logits) = 0;

  virtual std::int64_t vocab() const = 0;         // rows of the embedding
  virtual std::int64_t weight_bytes() const = 0;  // as packed, or as stored where they are not
  virtual std::int64_t decode_bytes() const = 0;  // of weights that a step of one token reads
};

struct LoadOptions {
  kernels::PackMode pack = kernels::PackMode::kKeep;
  // Without it matrices stay as the checkpoint stores them, which must then outlive the model.
  bool repack = true;
  std::int64_t max_tokens = 0;  // of one batch
  std::int64_t max_rows = 0;    // of logits in one batch
  bool deterministic = false;   // --enable-deterministic-inference
  // Bytes of the checkpoint packed so far, and in all.
  std::function<void(std::int64_t done, std::int64_t total)> on_progress;
};

// A model family: which architectures it serves, what it refuses before weights are read, and how
// it is loaded. One file each under families/; the table is model.cpp.
struct Family {
  std::span<const std::string_view> architectures;
  // Throws: kModelFeatureNotServed, kModelConfigMismatch.
  void (*check)(const ModelConfig& config);
  std::unique_ptr<Model> (*load)(const checkpoint::Metadata& metadata,
                                 const checkpoint::Weights& weights, ThreadPool& pool,
                                 const LoadOptions& options);
};

// The family of the architecture, or null where this build has none.
const Family* family_of(const ModelConfig& config);
// The architectures of all families, separated by commas.
std::string served_architectures();
// Throws: kModelFamilyNotServed with the architectures that are.
const Family& find_family(const ModelConfig& config);

}  // namespace quern::model
