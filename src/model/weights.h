// Takes tensors out of a checkpoint for a model family: finds them by name, checks their shapes,
// packs them, tells the progress and lets the file's pages go. A first loader only looks whether
// all are there as they should be, so that nothing is read for minutes and refused then.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "kernels/packed_matrix.h"
#include "model/model.h"

namespace quern::model {

enum class LoadPass { kCheck, kPack };

class WeightLoader {
 public:
  WeightLoader(const checkpoint::Weights& weights, ThreadPool& pool, const LoadOptions& options,
               LoadPass pass);

  bool has(const std::string& name) const;
  // A checkpoint of more layers than its configuration says is computed to garbage without any
  // other sign. `layer` is the pattern of a layer's names, e.g. "blk.{}.".
  // Throws: kModelConfigMismatch.
  void refuse_layers_beyond(std::string_view layer, const ModelConfig& config) const;
  // A matrix [outputs, k], packed or left as stored; without data in the pass that checks.
  // Throws: kTensorMissing, kTensorShapeWrong, kOutOfMemory.
  kernels::PackedMatrix matrix(const std::string& name, std::int64_t outputs, std::int64_t k);
  // The same packed as f32, whatever the options say. Throws: as matrix().
  kernels::PackedMatrix f32_matrix(const std::string& name, std::int64_t outputs, std::int64_t k);
  // `count` matrices in one tensor [count, outputs, k], each by itself. Throws: as matrix().
  std::vector<kernels::PackedMatrix> matrices(const std::string& name, std::int64_t count,
                                              std::int64_t outputs, std::int64_t k);
  // For what is made of a tensor before it is packed: the tensor, the matrix that was made (packed
  // as `mode()` says; without data in the pass that checks), and the end of the tensor's use.
  // take() throws: kTensorMissing, kTensorShapeWrong; pack(): kOutOfMemory.
  TensorView take(const std::string& name, const std::vector<std::int64_t>& shape);
  kernels::PackedMatrix pack(const TensorView& matrix) { return pack(matrix, options_.pack); }
  void finish(const TensorView& tensor);
  kernels::PackMode mode() const { return options_.pack; }
  bool checks() const { return pass_ == LoadPass::kCheck; }
  // A vector [count] as f32; zeros in the pass that checks. Throws: kTensorMissing,
  // kTensorShapeWrong.
  std::vector<float> vector(const std::string& name, std::int64_t count);

  std::int64_t weight_bytes() const { return weight_bytes_; }

 private:
  kernels::PackedMatrix pack(const TensorView& matrix, kernels::PackMode mode);
  // As the options say: packed, or left where it stands.
  kernels::PackedMatrix load(const TensorView& matrix);
  void release(const TensorView& tensor) const;
  void report(std::int64_t bytes);  // that are loaded

  const checkpoint::Weights& weights_;
  ThreadPool& pool_;
  const LoadOptions& options_;
  const LoadPass pass_;
  kernels::Arena arena_;  // of all matrices
  std::int64_t done_bytes_ = 0, total_bytes_ = 0, weight_bytes_ = 0;
};

}  // namespace quern::model
