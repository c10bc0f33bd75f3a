// Types and places of a GGUF file's tensors, from sizes alone.
#include <algorithm>
#include <iterator>
#include <numeric>
#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/gguf.h"

namespace quern::checkpoint {
namespace {

struct TypeName {
  std::uint32_t id;
  std::string_view name;
};

constexpr std::pair<std::uint32_t, DType> kServedTypes[] = {
    {0, DType::kF32},   {1, DType::kF16},   {30, DType::kBF16}, {2, DType::kQ4_0},
    {3, DType::kQ4_1},  {6, DType::kQ5_0},  {7, DType::kQ5_1},  {8, DType::kQ8_0},
    {11, DType::kQ3_K}, {12, DType::kQ4_K}, {13, DType::kQ5_K}, {14, DType::kQ6_K},
};

// Known to exist, not read; named in messages.
constexpr TypeName kOtherTypes[] = {
    {9, "Q8_1"},     {10, "Q2_K"},  {15, "Q8_K"},   {16, "IQ2_XXS"}, {17, "IQ2_XS"},
    {18, "IQ3_XXS"}, {19, "IQ1_S"}, {20, "IQ4_NL"}, {21, "IQ3_S"},   {22, "IQ2_S"},
    {23, "IQ4_XS"},  {24, "I8"},    {25, "I16"},    {26, "I32"},     {27, "I64"},
    {28, "F64"},     {29, "IQ1_M"}, {34, "TQ1_0"},  {35, "TQ2_0"},   {39, "MXFP4"},
};

std::string printable(std::string_view name) { return valid_utf8(name.substr(0, 80)); }

DType dtype_of(const GgufTensor& tensor, const std::string& file) {
  for (const auto& [id, dtype] : kServedTypes) {
    if (id == tensor.type) return dtype;
  }
  std::string allowed;
  for (const auto& [id, dtype] : kServedTypes) {
    allowed += (allowed.empty() ? "" : ", ") + std::string(name_of(dtype));
  }
  const auto* known = std::ranges::find(kOtherTypes, tensor.type, &TypeName::id);
  const bool named = known != std::end(kOtherTypes);
  throw Error(errors::kCheckpointTensorType,
              {{"tensor", printable(tensor.name)},
               {"file", file},
               {"type", named ? fmt::format("{} (id {})", known->name, tensor.type)
                              : fmt::format("id {}, which is unknown", tensor.type)},
               {"allowed", allowed}});
}

TensorInfo info_of(const GgufTensor& tensor, const std::string& file) {
  TensorInfo info;
  info.name = std::string(tensor.name);
  info.dtype = dtype_of(tensor, file);
  info.shape.assign(tensor.dims.rbegin(), tensor.dims.rend());
  const DTypeInfo& type = dtype_info(info.dtype);
  const auto invalid = [&](std::string_view reason) {
    return Error(errors::kCheckpointTensorShape,
                 {{"tensor", printable(tensor.name)},
                  {"file", file},
                  {"shape", fmt::format("[{}] of {}", fmt::join(info.shape, ", "), type.name)},
                  {"reason", reason}});
  };
  if (info.shape.back() % type.block_size != 0) {
    throw invalid(fmt::format("a row must be a multiple of {} values", type.block_size));
  }
  std::int64_t elements = 1;
  for (const std::int64_t dim : info.shape) elements *= dim;  // parse_gguf() saw that this fits
  const std::int64_t blocks = elements / type.block_size;
  if (blocks > INT64_MAX / type.block_bytes) throw invalid("its bytes do not fit in 63 bits");
  info.bytes = blocks * type.block_bytes;
  return info;
}

void check_inside(const PlacedTensor& tensor, const std::string& file, std::uint64_t file_size) {
  const auto bytes = static_cast<std::uint64_t>(tensor.info.bytes);
  if (tensor.begin <= file_size && bytes <= file_size - tensor.begin) return;
  // begin is below 2^63 + the header and bytes below 2^63: the sum fits in 64 bits.
  const std::uint64_t end = tensor.begin + bytes;
  throw Error(errors::kCheckpointTensorOutsideFile, {{"tensor", printable(tensor.info.name)},
                                                     {"file", file},
                                                     {"begin", tensor.begin},
                                                     {"end", end},
                                                     {"size", file_size},
                                                     {"missing", end - file_size}});
}

void check_overlaps(const std::vector<PlacedTensor>& tensors, const std::string& file) {
  std::vector<std::size_t> order(tensors.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return tensors[i].begin; });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const PlacedTensor &first = tensors[order[i - 1]], &second = tensors[order[i]];
    const std::uint64_t end = first.begin + static_cast<std::uint64_t>(first.info.bytes);
    if (second.begin >= end) continue;
    throw Error(errors::kCheckpointTensorOverlap, {{"tensor", printable(first.info.name)},
                                                   {"other", printable(second.info.name)},
                                                   {"file", file},
                                                   {"begin", first.begin},
                                                   {"end", end},
                                                   {"other_begin", second.begin}});
  }
}

}  // namespace

std::vector<PlacedTensor> place_tensors(const GgufHeader& header, std::uint64_t file_size) {
  std::vector<PlacedTensor> tensors;
  tensors.reserve(header.tensors.size());
  for (const GgufTensor& tensor : header.tensors) {
    PlacedTensor placed{info_of(tensor, header.file), 0};
    if (tensor.offset > static_cast<std::uint64_t>(INT64_MAX) - header.data_begin) {
      throw Error(errors::kCheckpointTensorOutsideFile, {{"tensor", printable(tensor.name)},
                                                         {"file", header.file},
                                                         {"begin", tensor.offset},
                                                         {"end", "beyond 2^63"},
                                                         {"size", file_size},
                                                         {"missing", "all"}});
    }
    placed.begin = header.data_begin + tensor.offset;
    check_inside(placed, header.file, file_size);
    tensors.push_back(std::move(placed));
  }
  check_overlaps(tensors, header.file);
  return tensors;
}

}  // namespace quern::checkpoint
