#include "model/weights.h"

#include <fmt/ranges.h>

#include <charconv>
#include <system_error>

#include "base/error.h"
#include "base/errors/model.h"
#include "kernels/decode_blocks.h"

namespace quern::model {

WeightLoader::WeightLoader(const checkpoint::Weights& weights, ThreadPool& pool,
                           const LoadOptions& options, LoadPass pass)
    : weights_(weights), pool_(pool), options_(options), pass_(pass) {
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

void WeightLoader::report(std::int64_t bytes) {
  if (pass_ == LoadPass::kCheck) return;
  done_bytes_ += bytes;
  if (options_.on_progress) options_.on_progress(done_bytes_, total_bytes_);
}

void WeightLoader::release(const TensorView& tensor) const {
  if (pass_ == LoadPass::kPack && options_.repack) weights_.release(tensor);
}

void WeightLoader::finish(const TensorView& tensor) {
  release(tensor);
  report(tensor.info->bytes);
}

kernels::PackedMatrix WeightLoader::pack(const TensorView& matrix, kernels::PackMode mode) {
  if (pass_ == LoadPass::kCheck) {
    kernels::PackedMatrix shape;
    shape.format = kernels::packed_format(matrix.info->dtype, mode);
    shape.outputs = matrix.rows();
    shape.k = matrix.columns();
    return shape;
  }
  kernels::PackedMatrix packed = kernels::pack(matrix, mode, pool_, arena_);
  weight_bytes_ += packed.bytes();
  return packed;
}

kernels::PackedMatrix WeightLoader::load(const TensorView& matrix) {
  if (options_.repack || pass_ == LoadPass::kCheck) return pack(matrix, options_.pack);
  kernels::PackedMatrix left = kernels::leave_stored(matrix, options_.pack, pool_);
  weight_bytes_ += left.bytes();
  return left;
}

kernels::PackedMatrix WeightLoader::matrix(const std::string& name, std::int64_t outputs,
                                           std::int64_t k) {
  const TensorView tensor = take(name, {outputs, k});
  kernels::PackedMatrix loaded = load(tensor);
  finish(tensor);
  return loaded;
}

kernels::PackedMatrix WeightLoader::f32_matrix(const std::string& name, std::int64_t outputs,
                                               std::int64_t k) {
  const TensorView tensor = take(name, {outputs, k});
  kernels::PackedMatrix packed = pack(tensor, kernels::PackMode::kF32);
  finish(tensor);
  return packed;
}

std::vector<kernels::PackedMatrix> WeightLoader::matrices(const std::string& name,
                                                          std::int64_t count, std::int64_t outputs,
                                                          std::int64_t k) {
  const TensorView tensor = take(name, {count, outputs, k});
  const TensorInfo one = {name, tensor.info->dtype, {outputs, k}, tensor.info->bytes / count};
  std::vector<kernels::PackedMatrix> loaded;
  for (std::int64_t i = 0; i < count; ++i) {
    loaded.push_back(load({&one, tensor.data + i * one.bytes}));
    report(one.bytes);
  }
  release(tensor);
  return loaded;
}

std::vector<float> WeightLoader::vector(const std::string& name, std::int64_t count) {
  const TensorView tensor = take(name, {count});
  std::vector<float> values(static_cast<size_t>(count));
  if (pass_ == LoadPass::kCheck) return values;
  kernels::decode(tensor.info->dtype, tensor.data, count, values.data());
  weight_bytes_ += count * 4;
  finish(tensor);
  return values;
}

}  // namespace quern::model
