#include "checkpoint/weights.h"

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

std::optional<TensorView> MappedWeights::find(std::string_view name) const {
  const auto it = places_.find(name);
  if (it == places_.end()) return std::nullopt;
  return TensorView{&infos_[it->second.index], it->second.data};
}

void MappedWeights::release(const TensorView& tensor) const {
  const auto it = places_.find(tensor.info->name);
  if (it != places_.end()) files_[it->second.file].release(it->second.data, tensor.info->bytes);
}

}  // namespace quern::checkpoint
