// Reader of safetensors headers and of the index of a sharded checkpoint. Takes what the format's
// reference reader takes: offsets that cover the data without gap or overlap, in any order of
// names; and refuses names that stand twice besides. Does not touch tensor data. Called by
// checkpoint.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"

namespace quern::checkpoint {

struct SafetensorsTensor {
  std::string name;
  std::string dtype;  // the file's word: F32, BF16, I64
  std::vector<std::uint64_t> shape;
  std::uint64_t begin = 0, end = 0;  // data_offsets
};

struct SafetensorsHeader {
  std::uint64_t data_begin = 0;            // offset of the data in the file
  std::vector<SafetensorsTensor> tensors;  // by ascending offset
};

inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

// `bytes` is the whole file. Throws: kCheckpointTruncated, kCheckpointSafetensorsHeader,
// kCheckpointSafetensorsRange, kCheckpointTensorOutsideFile, kCheckpointTensorDuplicate,
// kCheckpointTensorShape, kCheckpointTensorType for a word that is no type of the format.
SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, const std::string& file);

// The tensor as quern describes it. Throws: kCheckpointTensorType for types that are not served.
TensorInfo tensor_info(const SafetensorsTensor& tensor, const std::string& file);

// The index's weight_map: file name to the names of its tensors. File names are plain: a path that
// leads out of the folder is refused.
// Throws: kCheckpointJsonInvalid, kCheckpointIndexInvalid.
std::map<std::string, std::vector<std::string>> parse_safetensors_index(std::string_view text,
                                                                        const std::string& file);

}  // namespace quern::checkpoint
