// Writes safetensors files for tests of this folder and those above it.
#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "checkpoint/test_gguf.h"

namespace quern::checkpoint {

struct SafetensorsWriter {
  nlohmann::json header = nlohmann::json::object();
  std::string data;

  SafetensorsWriter& add(const std::string& name, const std::string& dtype,
                         const std::vector<std::int64_t>& shape, const std::string& bytes) {
    header[name] = {{"dtype", dtype},
                    {"shape", shape},
                    {"data_offsets", {data.size(), data.size() + bytes.size()}}};
    data += bytes;
    return *this;
  }
  SafetensorsWriter& f32(const std::string& name, const std::vector<std::int64_t>& shape,
                         const std::vector<float>& values) {
    std::string bytes;
    for (const float value : values) bytes += raw(value);
    return add(name, "F32", shape, bytes);
  }
  void write(const std::string& path) const {
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    std::ofstream(path, std::ios::binary) << raw<std::uint64_t>(text.size()) << text << data;
  }
};

}  // namespace quern::checkpoint
