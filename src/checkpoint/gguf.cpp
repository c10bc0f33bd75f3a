// Form of the header: counts are bounded by the bytes that are left before anything is stored, so a
// few bytes cannot ask for much memory or time.
#include "checkpoint/gguf.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"
#include "checkpoint/limits.h"

namespace quern::checkpoint {
namespace {

constexpr std::uint64_t kMaxNameBytes = 65536;
constexpr std::uint32_t kMaxDims = 4;
constexpr std::uint64_t kMinKeyBytes = 8;  // its length alone, so that a bad one is told as such
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 8 + 4 + 8;  // name, n_dims, dim, type, offset

static_assert(std::endian::native == std::endian::little, "values are read in place");

// Bytes of a fixed-size type, 0 for strings and arrays.
constexpr int size_of(GgufType type) {
  constexpr int kSizes[] = {1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8};
  return kSizes[static_cast<int>(type)];
}

template <typename T>
T load(const std::byte* data) {
  T value;
  std::memcpy(&value, data, sizeof(T));
  return value;
}

std::string printable(std::string_view text) {
  return text.size() > 80 ? valid_utf8(text.substr(0, 80)) + "…" : valid_utf8(text);
}

// Reads forward; every read is checked against what is left.
class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  std::uint64_t offset() const { return offset_; }
  std::uint64_t left() const { return bytes_.size() - offset_; }

  [[noreturn]] void fail(std::uint64_t at, std::string_view field, std::string value,
                         std::string expected) const {
    throw Error(errors::kCheckpointGgufHeader, {{"file", file_},
                                                {"offset", at},
                                                {"field", field},
                                                {"value", value},
                                                {"expected", expected}});
  }

  std::span<const std::byte> take(std::uint64_t count, std::string_view field) {
    if (count > left()) {
      throw Error(errors::kCheckpointTruncated, {{"file", file_},
                                                 {"field", field},
                                                 {"offset", offset_},
                                                 {"needed", count},
                                                 {"left", left()}});
    }
    const auto taken = bytes_.subspan(offset_, count);
    offset_ += count;
    return taken;
  }

  template <typename T>
  T number(std::string_view field) {
    return load<T>(take(sizeof(T), field).data());
  }

  std::string_view string(std::string_view field) {
    const auto length = number<std::uint64_t>(field);
    const auto data = take(length, field);
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

  // The name of a key or tensor.
  std::string_view name(std::string_view field) {
    const std::uint64_t at = offset_;
    const auto length = number<std::uint64_t>(field);
    if (length == 0 || length > kMaxNameBytes) {
      fail(at, std::string(field) + " length", fmt::to_string(length),
           fmt::format("1 to {} bytes", kMaxNameBytes));
    }
    const auto data = take(length, field);
    return {reinterpret_cast<const char*>(data.data()), data.size()};
  }

  // A count of entries of at least `smallest` bytes each.
  std::uint64_t count(std::string_view field, std::uint64_t smallest) {
    const std::uint64_t at = offset_;
    const auto value = number<std::uint64_t>(field);
    if (value > static_cast<std::uint64_t>(kMaxTensors)) {
      fail(at, field, fmt::to_string(value), fmt::format("at most {}", kMaxTensors));
    }
    pending_.push_back({field, at, value, smallest});
    return value;
  }

  // The counts together must fit in what follows them. Requires: called right behind the counts.
  void check_counts() const {
    for (const auto& [field, at, value, smallest] : pending_) {
      if (value > left() / smallest) {
        fail(at, field, fmt::to_string(value),
             fmt::format("at most {}, which is what the {} bytes left can hold", left() / smallest,
                         left()));
      }
    }
  }

 private:
  struct Count {
    std::string_view field;
    std::uint64_t at, value, smallest;
  };
  std::span<const std::byte> bytes_;
  const std::string& file_;
  std::uint64_t offset_ = 0;
  std::vector<Count> pending_;
};

GgufType read_type(Reader& reader, std::string_view key) {
  const std::uint64_t at = reader.offset();
  const auto type = reader.number<std::uint32_t>("value type");
  if (type > static_cast<std::uint32_t>(GgufType::kF64)) {
    reader.fail(at, fmt::format("value type of key {}", printable(key)), fmt::to_string(type),
                "a type from 0 to 12");
  }
  return static_cast<GgufType>(type);
}

void check_bools(const Reader& reader, const GgufValue& value, std::string_view key) {
  for (const std::byte byte : value.bytes) {
    if (byte > std::byte{1}) {
      reader.fail(value.offset, fmt::format("boolean of key {}", printable(key)),
                  fmt::to_string(std::to_integer<int>(byte)), "0 or 1");
    }
  }
}

void read_array(Reader& reader, std::string_view key, GgufValue& value) {
  const std::string field = fmt::format("array {}", printable(key));
  value.element = read_type(reader, key);
  const std::uint64_t at = reader.offset();
  if (value.element == GgufType::kArray) {
    reader.fail(at, field, "an array of arrays", "an array of plain values");
  }
  value.count = reader.number<std::uint64_t>(field + " length");
  const bool strings = value.element == GgufType::kString;
  const std::uint64_t smallest = strings ? 8 : static_cast<std::uint64_t>(size_of(value.element));
  if (value.count > reader.left() / smallest) {
    reader.fail(at, field + " length", fmt::to_string(value.count),
                fmt::format("at most {}, which is what the {} bytes left can hold",
                            reader.left() / smallest, reader.left()));
  }
  if (!strings) {
    value.bytes = reader.take(value.count * smallest, field);
    return;
  }
  Reader start = reader;
  for (std::uint64_t i = 0; i < value.count; ++i) reader.string(field);
  value.bytes = start.take(reader.offset() - start.offset(), field);
}

GgufValue read_value(Reader& reader, std::string_view key, std::uint64_t offset) {
  GgufValue value;
  value.offset = offset;
  value.type = read_type(reader, key);
  const std::string field = fmt::format("value of key {}", printable(key));
  if (value.type == GgufType::kArray) {
    read_array(reader, key, value);
  } else if (value.type == GgufType::kString) {
    const std::string_view text = reader.string(field);
    value.bytes = {reinterpret_cast<const std::byte*>(text.data()), text.size()};
  } else {
    value.bytes = reader.take(static_cast<std::uint64_t>(size_of(value.type)), field);
  }
  const GgufType scalar = value.type == GgufType::kArray ? value.element : value.type;
  if (scalar == GgufType::kBool) check_bools(reader, value, key);
  return value;
}

GgufTensor read_tensor(Reader& reader, const std::string& file) {
  GgufTensor tensor;
  tensor.entry = reader.offset();
  tensor.name = reader.name("tensor name");
  const std::string name = printable(tensor.name);
  const std::uint64_t at = reader.offset();
  const auto n_dims = reader.number<std::uint32_t>("n_dims of tensor " + name);
  if (n_dims < 1 || n_dims > kMaxDims) {
    reader.fail(at, "n_dims of tensor " + name, fmt::to_string(n_dims),
                fmt::format("1 to {}", kMaxDims));
  }
  std::uint64_t elements = 1;
  bool wraps = false, empty = false;
  for (std::uint32_t i = 0; i < n_dims; ++i) {
    const auto dim = reader.number<std::uint64_t>("dims of tensor " + name);
    tensor.dims.push_back(dim);
    if (dim == 0) {
      empty = true;
    } else if (dim > static_cast<std::uint64_t>(INT64_MAX) / elements) {
      wraps = true;
    } else {
      elements *= dim;
    }
  }
  if (empty || wraps) {
    throw Error(errors::kCheckpointTensorShape,
                {{"tensor", name},
                 {"file", file},
                 {"shape", fmt::format("[{}] at byte {}", fmt::join(tensor.dims, ", "), at + 4)},
                 {"reason", empty ? "each dimension must be at least 1"
                                  : "the number of elements does not fit in 63 bits"}});
  }
  tensor.type = reader.number<std::uint32_t>("type of tensor " + name);
  tensor.offset = reader.number<std::uint64_t>("offset of tensor " + name);
  return tensor;
}

std::uint64_t read_alignment(const Reader& reader, const GgufHeader& header) {
  const GgufValue* value = header.find("general.alignment");
  if (value == nullptr) return 32;
  const auto alignment = value->integer().value_or(0);
  // Below 8 a tensor of floats could lie askew.
  if (alignment < 8 || alignment > 65536 || (alignment & (alignment - 1)) != 0) {
    reader.fail(value->offset, "general.alignment", value->excerpt(),
                "a power of two from 8 to 65536");
  }
  return static_cast<std::uint64_t>(alignment);
}

void read_prologue(Reader& reader, GgufHeader& header) {
  const auto magic = reader.take(4, "magic");
  const std::string_view word(reinterpret_cast<const char*>(magic.data()), magic.size());
  if (word != "GGUF") reader.fail(0, "magic", printable(word), "GGUF");
  header.version = reader.number<std::uint32_t>("version");
  if (header.version != 2 && header.version != 3) {
    reader.fail(4, "version", fmt::to_string(header.version), "2 or 3, little-endian");
  }
}

void read_keys(Reader& reader, std::uint64_t count, GgufHeader& header) {
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::uint64_t at = reader.offset();
    const std::string_view key = reader.name("key name");
    if (!header.values.try_emplace(key, read_value(reader, key, at)).second) {
      throw Error(errors::kCheckpointGgufKeyDuplicate,
                  {{"file", header.file}, {"field", printable(key)}, {"offset", at}});
    }
  }
}

void read_tensors(Reader& reader, std::uint64_t count, GgufHeader& header) {
  std::unordered_map<std::string_view, std::uint64_t> entries;
  for (std::uint64_t i = 0; i < count; ++i) {
    GgufTensor tensor = read_tensor(reader, header.file);
    const auto [other, fresh] = entries.try_emplace(tensor.name, tensor.entry);
    if (!fresh) {
      throw Error(errors::kCheckpointTensorDuplicate,
                  {{"tensor", printable(tensor.name)},
                   {"file", fmt::format("{} at byte {}", header.file, other->second)},
                   {"other", fmt::format("the same file at byte {}", tensor.entry)}});
    }
    if (tensor.offset % header.alignment != 0) {
      throw Error(errors::kCheckpointTensorMisaligned, {{"tensor", printable(tensor.name)},
                                                        {"file", header.file},
                                                        {"value", tensor.offset},
                                                        {"alignment", header.alignment}});
    }
    header.tensors.push_back(std::move(tensor));
  }
}

// Calls `element` with the place of each element of an array.
template <typename Function>
void for_each_element(const GgufValue& value, Function element) {
  const std::byte* data = value.bytes.data();
  for (std::uint64_t i = 0; i < value.count; ++i) {
    std::uint64_t size = static_cast<std::uint64_t>(size_of(value.element));
    if (value.element == GgufType::kString) {
      size = load<std::uint64_t>(data);
      data += 8;
    }
    element(std::span<const std::byte>(data, size));
    data += size;
  }
}

std::optional<std::int64_t> integer_at(GgufType type, const std::byte* data) {
  switch (type) {
    case GgufType::kU8: return load<std::uint8_t>(data);
    case GgufType::kI8: return load<std::int8_t>(data);
    case GgufType::kU16: return load<std::uint16_t>(data);
    case GgufType::kI16: return load<std::int16_t>(data);
    case GgufType::kU32: return load<std::uint32_t>(data);
    case GgufType::kI32: return load<std::int32_t>(data);
    case GgufType::kI64: return load<std::int64_t>(data);
    case GgufType::kU64: {
      const auto value = load<std::uint64_t>(data);
      if (value > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    default: return std::nullopt;
  }
}

}  // namespace

std::string_view name_of(GgufType type) {
  static constexpr std::string_view kNames[] = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                                "int32",  "float32", "bool",   "string", "array",
                                                "uint64", "int64",   "float64"};
  return kNames[static_cast<int>(type)];
}

std::optional<std::int64_t> GgufValue::integer() const { return integer_at(type, bytes.data()); }

std::optional<double> GgufValue::number() const {
  if (type == GgufType::kF32) return load<float>(bytes.data());
  if (type == GgufType::kF64) return load<double>(bytes.data());
  const auto whole = integer();
  return whole ? std::optional<double>(static_cast<double>(*whole)) : std::nullopt;
}

std::optional<bool> GgufValue::boolean() const {
  if (type != GgufType::kBool) return std::nullopt;
  return bytes[0] == std::byte{1};
}

std::optional<std::string_view> GgufValue::string() const {
  if (type != GgufType::kString) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::optional<std::vector<std::string>> GgufValue::strings() const {
  if (type != GgufType::kArray || element != GgufType::kString) return std::nullopt;
  std::vector<std::string> elements;
  elements.reserve(count);
  for_each_element(*this, [&](std::span<const std::byte> data) {
    elements.emplace_back(reinterpret_cast<const char*>(data.data()), data.size());
  });
  return elements;
}

std::optional<std::vector<std::int64_t>> GgufValue::integers() const {
  if (type != GgufType::kArray || element == GgufType::kString) return std::nullopt;
  std::vector<std::int64_t> elements;
  elements.reserve(count);
  bool whole = true;
  for_each_element(*this, [&](std::span<const std::byte> data) {
    const auto number = integer_at(element, data.data());
    whole = whole && number.has_value();
    elements.push_back(number.value_or(0));
  });
  return whole ? std::optional(std::move(elements)) : std::nullopt;
}

std::optional<std::vector<double>> GgufValue::reals() const {
  if (type != GgufType::kArray || element != GgufType::kF32) return std::nullopt;
  std::vector<double> elements;
  elements.reserve(count);
  for_each_element(*this, [&](std::span<const std::byte> data) {
    elements.push_back(load<float>(data.data()));
  });
  return elements;
}

std::string GgufValue::excerpt() const {
  if (type == GgufType::kArray) return fmt::format("{} values of {}", count, name_of(element));
  if (const auto text = string()) return fmt::format("'{}'", printable(*text));
  if (const auto flag = boolean()) return fmt::to_string(*flag);
  if (const auto whole = integer()) return fmt::to_string(*whole);
  if (type == GgufType::kU64) return fmt::to_string(load<std::uint64_t>(bytes.data()));
  return fmt::to_string(number().value_or(NAN));
}

const GgufValue* GgufHeader::find(std::string_view key) const {
  const auto it = values.find(key);
  return it == values.end() ? nullptr : &it->second;
}

GgufHeader parse_gguf(std::span<const std::byte> bytes, const std::string& file) {
  GgufHeader header;
  header.file = file;
  Reader reader(bytes, header.file);
  read_prologue(reader, header);
  const std::uint64_t n_tensors = reader.count("tensor count", kMinTensorBytes);
  const std::uint64_t n_keys = reader.count("key count", kMinKeyBytes);
  reader.check_counts();
  read_keys(reader, n_keys, header);
  header.alignment = read_alignment(reader, header);
  read_tensors(reader, n_tensors, header);
  header.data_begin =
      (reader.offset() + header.alignment - 1) / header.alignment * header.alignment;
  return header;
}

}  // namespace quern::checkpoint
