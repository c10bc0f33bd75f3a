#include "checkpoint/safetensors_header.h"

#include <utility>

#include "base/error.h"
#include "base/errors/checkpoint.h"

namespace quern::checkpoint {
namespace {

constexpr int kRoot = 1, kTensor = 2, kNumbers = 3;  // depths
constexpr int kMaxIgnoredDepth = 125;  // 127 with the root and the tensor, as the reference has

std::string printable(std::string_view text) { return valid_utf8(text.substr(0, 80)); }

}  // namespace

void SafetensorsHeaderEvents::fail(std::string field, std::string value,
                                   std::string_view expected) const {
  throw Error(
      errors::kCheckpointSafetensorsHeader,
      {{"file", file_}, {"field", field}, {"value", printable(value)}, {"expected", expected}});
}

// What is being read, for messages.
std::string SafetensorsHeaderEvents::field_name() const {
  if (depth_ == 0) return "the header";
  if (metadata_) return "__metadata__";
  if (tensors_.empty()) return "the header";
  const std::string tensor = "tensor " + printable(tensors_.back().name);
  switch (field_) {
    case Field::kDtype: return "dtype of " + tensor;
    case Field::kShape: return "shape of " + tensor;
    case Field::kOffsets: return "data_offsets of " + tensor;
    default: return tensor;
  }
}

// A value that is not of the kind its place asks for.
bool SafetensorsHeaderEvents::scalar(std::string value) {
  if (inside_ignored() || field_ == Field::kIgnored) return true;
  if (depth_ == kRoot && metadata_ && value == "null") {
    metadata_ = false;
    return true;
  }
  if (depth_ == 0) fail(field_name(), value, "an object");
  if (metadata_) fail(field_name(), value, "an object of strings");
  if (field_ == Field::kDtype) fail(field_name(), value, "a string");
  if (depth_ == kRoot) fail(field_name(), value, "an object");
  fail(field_name(), value, "a list of integers from 0 to 2^64 - 1");
}

bool SafetensorsHeaderEvents::null() { return scalar("null"); }
bool SafetensorsHeaderEvents::boolean(bool value) { return scalar(value ? "true" : "false"); }
bool SafetensorsHeaderEvents::number_integer(number_integer_t value) {
  return scalar(fmt::to_string(value));
}
bool SafetensorsHeaderEvents::number_float(number_float_t, const string_t& text) {
  return scalar(text);
}
bool SafetensorsHeaderEvents::binary(binary_t&) { return scalar("binary"); }

bool SafetensorsHeaderEvents::number_unsigned(number_unsigned_t value) {
  if (inside_ignored() || depth_ != kNumbers) return scalar(fmt::to_string(value));
  SafetensorsTensor& tensor = tensors_.back();
  if (field_ == Field::kShape) {
    tensor.shape.push_back(value);
    return true;
  }
  if (offsets_ == 2) fail(field_name(), "a longer list", "two integers");
  (offsets_ == 0 ? tensor.begin : tensor.end) = value;
  ++offsets_;
  return true;
}

bool SafetensorsHeaderEvents::string(string_t& value) {
  const bool wanted = depth_ == kTensor && field_ == Field::kDtype && !metadata_;
  if (inside_ignored() || (metadata_ && depth_ == kTensor)) return true;
  if (!wanted) return scalar("'" + value + "'");
  tensors_.back().dtype = value;
  return true;
}

bool SafetensorsHeaderEvents::start_object(std::size_t) {
  if (inside_ignored() || (field_ == Field::kIgnored && depth_ == kTensor)) {
    if (++ignored_depth_ > kMaxIgnoredDepth) fail(field_name(), "nested too deep", "a plain value");
    return true;
  }
  if (depth_ >= kTensor) return scalar("an object");
  ++depth_;
  return true;
}

bool SafetensorsHeaderEvents::key(string_t& name) {
  if (inside_ignored()) return true;
  if (depth_ == kRoot) {
    field_ = Field::kNone;
    if (!names_.insert(name).second) {
      throw Error(errors::kCheckpointTensorDuplicate,
                  {{"tensor", printable(name)}, {"file", file_}, {"other", "the same header"}});
    }
    metadata_ = name == "__metadata__";
    if (!metadata_) {
      tensors_.push_back({name, "", {}, 0, 0});
      has_dtype_ = has_shape_ = has_offsets_ = false;
      offsets_ = 0;
    }
    return true;
  }
  if (metadata_) return true;
  bool* seen = nullptr;
  field_ = Field::kIgnored;
  if (name == "dtype") field_ = Field::kDtype, seen = &has_dtype_;
  if (name == "shape") field_ = Field::kShape, seen = &has_shape_;
  if (name == "data_offsets") field_ = Field::kOffsets, seen = &has_offsets_;
  if (seen != nullptr && std::exchange(*seen, true)) fail(field_name(), "given twice", "one value");
  return true;
}

bool SafetensorsHeaderEvents::end_object() {
  if (inside_ignored()) {
    --ignored_depth_;
    return true;
  }
  --depth_;
  if (depth_ != kRoot) return true;
  field_ = Field::kNone;
  if (!std::exchange(metadata_, false)) {
    if (!has_dtype_) fail(field_name(), "without dtype", "dtype, shape and data_offsets");
    if (!has_shape_) fail(field_name(), "without shape", "dtype, shape and data_offsets");
    if (!has_offsets_) fail(field_name(), "without data_offsets", "dtype, shape and data_offsets");
  }
  return true;
}

bool SafetensorsHeaderEvents::start_array(std::size_t) {
  if (inside_ignored() || (field_ == Field::kIgnored && depth_ == kTensor)) {
    if (++ignored_depth_ > kMaxIgnoredDepth) fail(field_name(), "nested too deep", "a plain value");
    return true;
  }
  const bool wanted =
      depth_ == kTensor && !metadata_ && (field_ == Field::kShape || field_ == Field::kOffsets);
  if (!wanted) return scalar("a list");
  ++depth_;
  return true;
}

bool SafetensorsHeaderEvents::end_array() {
  if (inside_ignored()) {
    --ignored_depth_;
    return true;
  }
  --depth_;
  if (field_ == Field::kOffsets && offsets_ != 2) {
    fail(field_name(), "a shorter list", "two integers");
  }
  return true;
}

bool SafetensorsHeaderEvents::parse_error(std::size_t position, const std::string& token,
                                          const nlohmann::json::exception&) {
  fail(fmt::format("the JSON at byte {}", position + 8), "not valid near '" + token + "'",
       "an object of tensors");
}

}  // namespace quern::checkpoint
