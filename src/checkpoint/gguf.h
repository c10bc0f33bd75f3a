// Reader of GGUF files, versions 2 and 3, little-endian. parse_gguf() takes the header apart and
// checks its form; place_tensors() checks every tensor's type, shape and place against the size of
// the file. The two are apart so that a model's facts can be judged before its weights are looked
// at. Neither touches tensor data. Called by gguf_config.cpp and checkpoint.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/tensor.h"

namespace quern::checkpoint {

enum class GgufType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
};
std::string_view name_of(GgufType type);

// A value of the metadata, still in the file's bytes; arrays are walked once and not copied.
struct GgufValue {
  GgufType type = GgufType::kU8;
  GgufType element = GgufType::kU8;  // of an array
  std::uint64_t count = 1;           // elements of an array
  std::span<const std::byte> bytes;  // of the value, or of the array's elements
  std::uint64_t offset = 0;          // of the key, in the file

  // The value, or nullopt where it is of another kind. Integers of any width and sign count; an
  // unsigned one above the int64 range does not.
  std::optional<std::int64_t> integer() const;
  std::optional<double> number() const;  // floats and integers
  std::optional<bool> boolean() const;
  std::optional<std::string_view> string() const;
  // Elements of an array; nullopt for another element type. Cost: O(count), copies.
  std::optional<std::vector<std::string>> strings() const;
  std::optional<std::vector<std::int64_t>> integers() const;
  std::optional<std::vector<double>> reals() const;  // of an array of f32
  // The value for messages, cut to a readable length.
  std::string excerpt() const;
};

// One entry of the tensor list, as declared.
struct GgufTensor {
  std::string_view name;
  std::vector<std::uint64_t> dims;  // in the file's order: fastest first
  std::uint32_t type = 0;
  std::uint64_t offset = 0;  // from the start of the data
  std::uint64_t entry = 0;   // where the entry stands, for messages
};

// Views into the bytes that were parsed, which must outlive it.
struct GgufHeader {
  std::string file;  // for messages
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::uint64_t data_begin = 0;  // offset of the tensor data, aligned
  std::unordered_map<std::string_view, GgufValue> values;
  std::vector<GgufTensor> tensors;

  const GgufValue* find(std::string_view key) const;
};

// Throws: kCheckpointTruncated, kCheckpointGgufHeader, kCheckpointGgufKeyDuplicate,
// kCheckpointTensorDuplicate, kCheckpointTensorShape, kCheckpointTensorMisaligned.
GgufHeader parse_gguf(std::span<const std::byte> bytes, const std::string& file);

struct PlacedTensor {
  TensorInfo info;
  std::uint64_t begin = 0;  // offset in the file
};

// The tensors in the order of the file, shapes outermost first.
// Throws: kCheckpointTensorType, kCheckpointTensorShape, kCheckpointTensorOutsideFile,
// kCheckpointTensorOverlap.
std::vector<PlacedTensor> place_tensors(const GgufHeader& header, std::uint64_t file_size);

}  // namespace quern::checkpoint
