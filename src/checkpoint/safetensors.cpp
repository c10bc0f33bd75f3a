#include "checkpoint/safetensors.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/json.h"
#include "checkpoint/safetensors_header.h"

namespace quern::checkpoint {
namespace {

struct FileType {
  std::string_view name;
  int bits;
};

constexpr FileType kFileTypes[] = {
    {"BOOL", 8}, {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"U8", 8},
    {"I8", 8},   {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"I16", 16},
    {"U16", 16}, {"F16", 16},    {"BF16", 16},   {"I32", 32},    {"U32", 32},
    {"F32", 32}, {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
};

std::string printable(std::string_view text) { return valid_utf8(text.substr(0, 80)); }

Error type_error(const SafetensorsTensor& tensor, const std::string& file) {
  return Error(errors::kCheckpointTensorType, {{"tensor", printable(tensor.name)},
                                               {"file", file},
                                               {"type", printable(tensor.dtype)},
                                               {"allowed", "F32, F16, BF16, F8_E4M3"}});
}

// Bytes that shape and dtype ask for.
std::uint64_t declared_bytes(const SafetensorsTensor& tensor, const std::string& file) {
  const auto* type = std::ranges::find(kFileTypes, tensor.dtype, &FileType::name);
  if (type == std::end(kFileTypes)) throw type_error(tensor, file);
  const auto invalid = [&](std::string_view reason) {
    const std::span first(tensor.shape.begin(), std::min<std::size_t>(tensor.shape.size(), 16));
    return Error(errors::kCheckpointTensorShape,
                 {{"tensor", printable(tensor.name)},
                  {"file", file},
                  {"shape", fmt::format("[{}]", fmt::join(first, ", "))},
                  {"reason", reason}});
  };
  std::uint64_t elements = 1;
  for (const std::uint64_t dim : tensor.shape) {
    if (dim > static_cast<std::uint64_t>(INT64_MAX)) throw invalid("a dimension exceeds 2^63");
    // The product may not wrap, even where a later dimension is 0.
    if (dim != 0 && elements > UINT64_MAX / dim) throw invalid("its size does not fit in 64 bits");
    elements *= dim;
  }
  const auto width = static_cast<std::uint64_t>(type->bits);
  if (elements > UINT64_MAX / width) throw invalid("its size does not fit in 64 bits");
  const std::uint64_t bits = elements * width;
  if (bits % 8 != 0) throw invalid("its values do not fill whole bytes");
  return bits / 8;
}

void check_ranges(const std::vector<SafetensorsTensor>& tensors, std::uint64_t data_bytes,
                  std::uint64_t data_begin, const std::string& file) {
  std::uint64_t expected = 0;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const SafetensorsTensor& tensor = tensors[i];
    const auto invalid = [&](std::string_view reason) {
      return Error(errors::kCheckpointSafetensorsRange, {{"tensor", printable(tensor.name)},
                                                         {"file", file},
                                                         {"begin", tensor.begin},
                                                         {"end", tensor.end},
                                                         {"reason", reason}});
    };
    if (tensor.end < tensor.begin) throw invalid("it ends before it begins");
    const std::uint64_t bytes = declared_bytes(tensor, file);
    if (bytes != tensor.end - tensor.begin) {
      throw invalid(fmt::format("shape and dtype ask for {} bytes", bytes));
    }
    if (tensor.begin < expected) {
      throw invalid(fmt::format("tensor {} before it ends at {}: they overlap",
                                printable(tensors[i - 1].name), expected));
    }
    if (tensor.begin > expected) {
      throw invalid(fmt::format("there is a gap: nothing covers the bytes from {}", expected));
    }
    if (tensor.end > data_bytes) {
      throw Error(errors::kCheckpointTensorOutsideFile,
                  {{"tensor", printable(tensor.name)},
                   {"file", file},
                   {"begin", fmt::format("{} + {}", data_begin, tensor.begin)},
                   {"end", fmt::format("{} + {}", data_begin, tensor.end)},
                   {"size", data_begin + data_bytes},
                   {"missing", tensor.end - data_bytes}});
    }
    expected = tensor.end;
  }
  if (expected != data_bytes) {
    throw Error(errors::kCheckpointSafetensorsHeader,
                {{"file", file},
                 {"field", "the data"},
                 {"value", fmt::format("{} bytes long", data_bytes)},
                 {"expected", fmt::format("the {} bytes that the tensors cover", expected)}});
  }
}

std::string_view header_text(std::span<const std::byte> bytes, const std::string& file) {
  const auto truncated = [&](std::string_view field, std::uint64_t offset, std::uint64_t needed) {
    return Error(errors::kCheckpointTruncated, {{"file", file},
                                                {"field", field},
                                                {"offset", offset},
                                                {"needed", needed},
                                                {"left", bytes.size() - offset}});
  };
  if (bytes.size() < 8) throw truncated("header length", 0, 8);
  std::uint64_t length = 0;
  std::memcpy(&length, bytes.data(), sizeof(length));
  if (length > kMaxSafetensorsHeader) {
    throw Error(errors::kCheckpointSafetensorsHeader,
                {{"file", file},
                 {"field", "the header length at byte 0"},
                 {"value", length},
                 {"expected", fmt::format("at most {}", kMaxSafetensorsHeader)}});
  }
  if (length > bytes.size() - 8) throw truncated("header", 8, length);
  return {reinterpret_cast<const char*>(bytes.data()) + 8, length};
}

}  // namespace

SafetensorsHeader parse_safetensors(std::span<const std::byte> bytes, const std::string& file) {
  const std::string_view text = header_text(bytes, file);
  // nlohmann would skip a byte-order mark or white space; the format allows neither.
  if (text.empty() || text.front() != '{') {
    throw Error(errors::kCheckpointSafetensorsHeader, {{"file", file},
                                                       {"field", "the first byte at 8"},
                                                       {"value", printable(text.substr(0, 8))},
                                                       {"expected", "an object"}});
  }
  if (const auto zero = text.find('\0'); zero != text.npos) {  // ends the text for nlohmann
    throw Error(errors::kCheckpointSafetensorsHeader,
                {{"file", file},
                 {"field", fmt::format("the JSON at byte {}", zero + 8)},
                 {"value", "a zero byte"},
                 {"expected", "an object of tensors"}});
  }
  SafetensorsHeaderEvents events(file);
  nlohmann::json::sax_parse(text.begin(), text.end(), &events);
  SafetensorsHeader header;
  header.data_begin = 8 + text.size();
  header.tensors = events.take();
  std::ranges::stable_sort(header.tensors, {}, [](const SafetensorsTensor& tensor) {
    return std::pair(tensor.begin, tensor.end);
  });
  check_ranges(header.tensors, bytes.size() - header.data_begin, header.data_begin, file);
  return header;
}

TensorInfo tensor_info(const SafetensorsTensor& tensor, const std::string& file) {
  TensorInfo info;
  info.name = tensor.name;
  if (tensor.dtype == "F32") {
    info.dtype = DType::kF32;
  } else if (tensor.dtype == "F16") {
    info.dtype = DType::kF16;
  } else if (tensor.dtype == "BF16") {
    info.dtype = DType::kBF16;
  } else if (tensor.dtype == "F8_E4M3") {
    info.dtype = DType::kF8E4M3;
  } else {
    throw type_error(tensor, file);
  }
  info.shape.assign(tensor.shape.begin(), tensor.shape.end());
  info.bytes = static_cast<std::int64_t>(tensor.end - tensor.begin);
  return info;
}

std::map<std::string, std::vector<std::string>> parse_safetensors_index(std::string_view text,
                                                                        const std::string& file) {
  const auto invalid = [&](std::string field, const nlohmann::json& value, std::string expected) {
    return Error(errors::kCheckpointIndexInvalid, {{"file", file},
                                                   {"field", printable(field)},
                                                   {"value", json_excerpt(value)},
                                                   {"expected", expected}});
  };
  const nlohmann::json root = parse_json_object(text, file);
  const auto map = root.find("weight_map");
  if (map == root.end() || !map->is_object() || map->empty()) {
    throw invalid("weight_map", map == root.end() ? nlohmann::json() : *map,
                  "an object of tensor names and files");
  }
  std::map<std::string, std::vector<std::string>> files;
  for (const auto& [tensor, value] : map->items()) {
    const std::string name = value.is_string() ? value.get<std::string>() : "";
    const bool plain = name.find_first_of(std::string_view("/\\\0", 3)) == name.npos &&
                       name != "." && name != ".." && name.size() <= 255 && !name.empty();
    if (!plain) throw invalid(tensor, value, "the name of a file in the same folder");
    files[name].push_back(tensor);
  }
  return files;
}

}  // namespace quern::checkpoint
