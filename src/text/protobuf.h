// Reads the wire format of Protocol Buffers, one field after the other, without a schema. It is
// outside data: nothing is read past the end, and a broken field ends the reading.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace quern::text {

class ProtobufReader {
 public:
  explicit ProtobufReader(std::string_view data) : rest_(data) {}

  // Goes to the next field; false at the end and at what is no field.
  bool next() {
    std::uint64_t tag = 0;
    if (rest_.empty() || !varint(tag)) return false;
    field_ = static_cast<std::uint32_t>(tag >> 3);
    wire_ = static_cast<int>(tag & 7);
    bytes_ = {};
    switch (wire_) {
      case 0: return varint(number_);
      case 1: return take(8);
      case 2: {
        std::uint64_t size = 0;
        return varint(size) && take(size);
      }
      case 5: return take(4);
      default: return broken();
    }
  }

  bool failed() const { return failed_; }
  std::uint32_t field() const { return field_; }
  // Of the field that was read; 0 and "" where it is of another type.
  std::int64_t number() const { return wire_ == 0 ? static_cast<std::int64_t>(number_) : 0; }
  bool is_bytes() const { return wire_ == 2; }
  std::string_view bytes() const { return wire_ == 2 ? bytes_ : std::string_view(); }
  float real() const {
    float value = 0;
    if (wire_ == 5) std::memcpy(&value, bytes_.data(), sizeof value);
    return value;
  }

 private:
  bool broken() {
    failed_ = true;
    return false;
  }
  bool varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      if (rest_.empty()) return broken();
      const auto byte = static_cast<std::uint8_t>(rest_[0]);
      rest_.remove_prefix(1);
      value |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return true;
    }
    return broken();
  }
  bool take(std::uint64_t size) {
    if (size > rest_.size()) return broken();
    bytes_ = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_, bytes_;
  std::uint64_t number_ = 0;
  std::uint32_t field_ = 0;
  int wire_ = 0;
  bool failed_ = false;
};

}  // namespace quern::text
