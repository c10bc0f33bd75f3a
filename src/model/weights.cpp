#include "model/weights.h"

#include <fmt/ranges.h>

#include "base/error.h"
#include "base/errors/model.h"
#include "kernels/decode_blocks.h"

namespace quern::model {

WeightLoader::WeightLoader(const checkpoint::Weights& weights, ThreadPool& pool,
                           const LoadOptions& options)
    : weights_(weights), pool_(pool), options_(options) {
  for (const TensorInfo& tensor : weights.tensors()) total_bytes_ += tensor.bytes;
}

bool WeightLoader::has(const std::string& name) const { return weights_.find(name).has_value(); }

TensorView WeightLoader::take(const std::string& name, const std::vector<std::int64_t>& shape) {
  const auto tensor = weights_.find(name);
  if (!tensor) {
    throw Error(errors::kTensorMissing, {{"tensor", name}, {"origin", weights_.origin()}});
  }
  if (tensor->info->shape != shape) {
    throw Error(errors::kTensorShapeWrong,
                {{"tensor", name},
                 {"origin", weights_.origin()},
                 {"shape", fmt::format("[{}]", fmt::join(tensor->info->shape, ", "))},
                 {"wanted", fmt::format("[{}]", fmt::join(shape, ", "))}});
  }
  return *tensor;
}

void WeightLoader::finish(const TensorView& tensor) {
  weights_.release(tensor);
  done_bytes_ += tensor.info->bytes;
  if (options_.on_progress) options_.on_progress(done_bytes_, total_bytes_);
}

kernels::PackedMatrix WeightLoader::matrix(const std::string& name, std::int64_t outputs,
                                           std::int64_t k) {
  const TensorView tensor = take(name, {outputs, k});
  kernels::PackedMatrix packed = kernels::pack(tensor, options_.pack, pool_);
  packed_bytes_ += packed.data.size();
  finish(tensor);
  return packed;
}

std::vector<float> WeightLoader::vector(const std::string& name, std::int64_t count) {
  const TensorView tensor = take(name, {count});
  std::vector<float> values(static_cast<size_t>(count));
  kernels::decode(tensor.info->dtype, tensor.data, count, values.data());
  packed_bytes_ += count * 4;
  finish(tensor);
  return values;
}

}  // namespace quern::model
