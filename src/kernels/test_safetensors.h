// Reads the arrays of a golden safetensors file for tests below checkpoint/, whose reader they must
// not depend on. Trusts the file: it is the project's own.
#pragma once

#include <cstdint>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace quern {

class GoldenArrays {
 public:
  explicit GoldenArrays(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    std::uint64_t length = 0;
    std::memcpy(&length, bytes_.data(), 8);
    header_ = nlohmann::json::parse(bytes_.substr(8, length));
    data_ = 8 + length;
  }
  bool has(const std::string& name) const { return header_.contains(name); }
  std::vector<std::int64_t> shape(const std::string& name) const {
    return header_.at(name).at("shape");
  }
  // F32 or BF16 as float, integers converted.
  std::vector<float> floats(const std::string& name) const {
    const auto raw = bytes(name);
    const std::string dtype = header_.at(name).at("dtype");
    std::vector<float> out;
    if (dtype == "F32") {
      out.resize(raw.size() / 4);
      std::memcpy(out.data(), raw.data(), raw.size());
    } else {
      for (const std::uint16_t bits : as<std::uint16_t>(name)) out.push_back(f32_from_bf16(bits));
    }
    return out;
  }
  template <typename T>
  std::vector<T> as(const std::string& name) const {
    const auto raw = bytes(name);
    std::vector<T> out(raw.size() / sizeof(T));
    std::memcpy(out.data(), raw.data(), raw.size());
    return out;
  }
  std::string bytes(const std::string& name) const {
    const auto& offsets = header_.at(name).at("data_offsets");
    const std::size_t begin = offsets[0], end = offsets[1];
    return bytes_.substr(data_ + begin, end - begin);
  }

 private:
  std::string bytes_;
  std::size_t data_ = 0;
  nlohmann::json header_;
};

}  // namespace quern
