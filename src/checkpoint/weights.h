// The one implementation of Weights: tensors of one or more mapped files. Used by checkpoint.cpp.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/mapped_file.h"
#include "core/model_config.h"

namespace quern::checkpoint {

class MappedWeights final : public Weights {
 public:
  explicit MappedWeights(std::string origin) : origin_(std::move(origin)) {}

  // Takes the file; its tensors are added by add().
  void add_file(MappedFile file);
  // A tensor at `begin` bytes into the file added last; the caller has checked that it lies inside.
  // Throws: kCheckpointTensorDuplicate for a name that an earlier file has.
  void add(TensorInfo info, std::uint64_t begin);

  // Gives every kF8E4M3 matrix "x" the scales that stand beside it as "x_scale_inv", one for each
  // block of the sizes that `stored` tells; `config` is the file that tells them, for messages.
  // Throws: kCheckpointTensorMissing, kCheckpointTensorShape, kConfigFieldMissing.
  void attach_scales(const WeightQuantization& stored, const std::string& config);

  const std::vector<TensorInfo>& tensors() const override { return infos_; }
  std::optional<TensorView> find(std::string_view name) const override;
  void release(const TensorView& tensor) const override;
  std::string origin() const override { return origin_; }

 private:
  struct Place {
    std::size_t index;  // in infos_
    std::size_t file;
    const std::byte* data;
    BlockScales scales = {};
  };
  BlockScales scales_of(const TensorInfo& matrix, const std::string& file,
                        const WeightQuantization& stored) const;

  struct Hash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>{}(text);
    }
  };

  std::string origin_;
  std::vector<MappedFile> files_;
  std::vector<TensorInfo> infos_;
  std::unordered_map<std::string, Place, Hash, std::equal_to<>> places_;
};

}  // namespace quern::checkpoint
