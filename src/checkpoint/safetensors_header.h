// The JSON of a safetensors header as events, so that nothing is stored that is not a tensor's
// description and nesting costs no stack. Used by safetensors.cpp only.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "checkpoint/safetensors.h"

namespace quern::checkpoint {

// Receives nlohmann's SAX events. Throws: kCheckpointSafetensorsHeader, kCheckpointTensorDuplicate.
class SafetensorsHeaderEvents final : public nlohmann::json_sax<nlohmann::json> {
 public:
  explicit SafetensorsHeaderEvents(const std::string& file) : file_(file) {}
  std::vector<SafetensorsTensor> take() { return std::move(tensors_); }

  bool null() override;
  bool boolean(bool value) override;
  bool number_integer(number_integer_t value) override;
  bool number_unsigned(number_unsigned_t value) override;
  bool number_float(number_float_t value, const string_t& text) override;
  bool string(string_t& value) override;
  bool binary(binary_t& value) override;
  bool start_object(std::size_t elements) override;
  bool key(string_t& name) override;
  bool end_object() override;
  bool start_array(std::size_t elements) override;
  bool end_array() override;
  bool parse_error(std::size_t position, const std::string& token,
                   const nlohmann::json::exception& fault) override;

 private:
  enum class Field { kNone, kDtype, kShape, kOffsets, kIgnored };

  [[noreturn]] void fail(std::string field, std::string value, std::string_view expected) const;
  std::string field_name() const;
  bool scalar(std::string value);
  bool inside_ignored() const { return ignored_depth_ > 0; }

  const std::string& file_;
  std::vector<SafetensorsTensor> tensors_;
  std::unordered_set<std::string> names_;
  int depth_ = 0;          // open objects and arrays that are looked at
  int ignored_depth_ = 0;  // those inside a value that is not
  bool metadata_ = false;  // inside __metadata__
  Field field_ = Field::kNone;
  bool has_dtype_ = false, has_shape_ = false, has_offsets_ = false;
  std::size_t offsets_ = 0;  // numbers read of data_offsets
};

}  // namespace quern::checkpoint
