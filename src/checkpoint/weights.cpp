#include "checkpoint/weights.h"

#include <fmt/ranges.h>

#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"

namespace quern::checkpoint {

void MappedWeights::add_file(MappedFile file) { files_.push_back(std::move(file)); }

void MappedWeights::add(TensorInfo info, std::uint64_t begin) {
  const MappedFile& file = files_.back();
  const Place place{infos_.size(), files_.size() - 1, file.bytes().data() + begin};
  const auto [other, fresh] = places_.try_emplace(info.name, place);
  if (!fresh) {
    throw Error(errors::kCheckpointTensorDuplicate, {{"tensor", info.name},
                                                     {"file", files_[other->second.file].path()},
                                                     {"other", file.path()}});
  }
  infos_.push_back(std::move(info));
}

void MappedWeights::attach_scales(const WeightQuantization& stored, const std::string& config) {
  for (const TensorInfo& info : infos_) {
    if (info.dtype != DType::kF8E4M3) continue;
    if (stored.block_rows == 0) {
      throw Error(errors::kConfigFieldMissing, {{"file", config},
                                                {"field", "quantization_config.weight_block_size"},
                                                {"architecture", "weights of type F8_E4M3"}});
    }
    Place& place = places_.find(info.name)->second;
    place.scales = scales_of(info, files_[place.file].path(), stored);
  }
}

BlockScales MappedWeights::scales_of(const TensorInfo& matrix, const std::string& file,
                                     const WeightQuantization& stored) const {
  const auto wrong_shape = [&](const TensorInfo& tensor, std::string reason) {
    return Error(errors::kCheckpointTensorShape,
                 {{"tensor", tensor.name},
                  {"file", file},
                  {"shape", fmt::format("[{}]", fmt::join(tensor.shape, ", "))},
                  {"reason", std::move(reason)}});
  };
  if (matrix.shape.size() != 2) throw wrong_shape(matrix, "of type F8_E4M3 a matrix is wanted");
  const auto scales = find(matrix.name + "_scale_inv");
  if (!scales) {
    throw Error(errors::kCheckpointTensorMissing,
                {{"tensor", matrix.name + "_scale_inv"},
                 {"file", file},
                 {"reason", fmt::format("{} is stored as F8_E4M3 with a scale for each block of "
                                        "{}×{} values",
                                        matrix.name, stored.block_rows, stored.block_columns)}});
  }
  const auto blocks = [](std::int64_t count, std::int64_t size) {
    return count / size + (count % size != 0);
  };
  const std::vector<std::int64_t> wanted = {blocks(matrix.shape[0], stored.block_rows),
                                            blocks(matrix.shape[1], stored.block_columns)};
  const DType type = scales->info->dtype;
  if (scales->info->shape != wanted || (type != DType::kF32 && type != DType::kBF16)) {
    throw wrong_shape(*scales->info, fmt::format("F32 or BF16 scales [{}] belong to {} [{}]",
                                                 fmt::join(wanted, ", "), matrix.name,
                                                 fmt::join(matrix.shape, ", ")));
  }
  return {scales->data, type, stored.block_rows, stored.block_columns};
}

std::optional<TensorView> MappedWeights::find(std::string_view name) const {
  const auto it = places_.find(name);
  if (it == places_.end()) return std::nullopt;
  return TensorView{&infos_[it->second.index], it->second.data, it->second.scales};
}

void MappedWeights::release(const TensorView& tensor) const {
  const auto it = places_.find(tensor.info->name);
  if (it != places_.end()) files_[it->second.file].release(it->second.data, tensor.info->bytes);
}

}  // namespace quern::checkpoint
