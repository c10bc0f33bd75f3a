#include "model/weights.h"

#include <fmt/ranges.h>

#include <charconv>
#include <system_error>

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

void WeightLoader::refuse_layers_beyond(std::string_view layer, const ModelConfig& config) const {
  const std::string_view before = layer.substr(0, layer.find("{}"));
  const std::string_view behind = layer.substr(before.size() + 2);
  for (const TensorInfo& tensor : weights_.tensors()) {
    const std::string_view name = tensor.name;
    if (!name.starts_with(before)) continue;
    const char* const end = name.data() + name.size();
    std::int64_t index = 0;
    const auto [stop, code] = std::from_chars(name.data() + before.size(), end, index);
    if (code == std::errc::invalid_argument) continue;
    if (!std::string_view(stop, end).starts_with(behind)) continue;
    // Layers of multi-token prediction stand behind the model's own.
    if (code == std::errc() && index < config.layers + config.nextn_layers) continue;
    throw Error(errors::kModelConfigMismatch,
                {{"what", fmt::format("layers is {}, and the weights hold '{}'", config.layers,
                                      valid_utf8(name))},
                 {"origin", config.origin}});
  }
}

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
  kernels::PackedMatrix packed = kernels::pack(tensor, options_.pack, pool_, arena_);
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
