// Writes GGUF files byte by byte, malformed ones too, for the tests of this folder.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace quern::checkpoint {

template <typename T>
std::string raw(T value) {
  std::string bytes(sizeof(T), '\0');
  std::memcpy(bytes.data(), &value, sizeof(T));
  return bytes;
}

inline std::string gguf_string(std::string_view text) {
  return raw<std::uint64_t>(text.size()) + std::string(text);
}

struct GgufWriter {
  std::string keys, infos;
  std::uint64_t n_keys = 0, n_tensors = 0;
  std::uint32_t version = 3;
  std::uint64_t data_bytes = 0;  // zeros after the header

  GgufWriter& key(std::string_view name, std::uint32_t type, const std::string& value) {
    keys += gguf_string(name) + raw(type) + value;
    ++n_keys;
    return *this;
  }
  GgufWriter& u32(std::string_view name, std::uint32_t value) { return key(name, 4, raw(value)); }
  GgufWriter& f32(std::string_view name, float value) { return key(name, 6, raw(value)); }
  GgufWriter& text(std::string_view name, std::string_view value) {
    return key(name, 8, gguf_string(value));
  }
  GgufWriter& texts(std::string_view name, const std::vector<std::string>& values) {
    std::string bytes = raw<std::uint32_t>(8) + raw<std::uint64_t>(values.size());
    for (const std::string& value : values) bytes += gguf_string(value);
    return key(name, 9, bytes);
  }
  GgufWriter& i32s(std::string_view name, const std::vector<std::int32_t>& values) {
    std::string bytes = raw<std::uint32_t>(5) + raw<std::uint64_t>(values.size());
    for (const std::int32_t value : values) bytes += raw(value);
    return key(name, 9, bytes);
  }
  // Places the tensor behind the ones before it, 32 bytes aligned, unless `offset` says otherwise.
  GgufWriter& tensor(std::string_view name, const std::vector<std::uint64_t>& dims,
                     std::uint32_t type, std::uint64_t bytes, std::int64_t offset = -1) {
    const std::uint64_t place = (data_bytes + 31) / 32 * 32;
    infos += gguf_string(name) + raw(static_cast<std::uint32_t>(dims.size()));
    for (const std::uint64_t dim : dims) infos += raw(dim);
    infos += raw(type) + raw(offset < 0 ? place : static_cast<std::uint64_t>(offset));
    data_bytes = place + bytes;
    ++n_tensors;
    return *this;
  }
  std::string header() const {
    return "GGUF" + raw(version) + raw(n_tensors) + raw(n_keys) + keys + infos;
  }
  std::string bytes() const {
    std::string all = header();
    all.resize((all.size() + 31) / 32 * 32);
    return all + std::string(data_bytes, '\0');
  }
};

// A llama of two blocks, hidden 64, 4 heads, 2 KV heads, vocabulary 8.
inline GgufWriter tiny_llama() {
  GgufWriter writer;
  writer.text("general.architecture", "llama")
      .text("general.name", "tiny")
      .u32("llama.context_length", 512)
      .u32("llama.embedding_length", 64)
      .u32("llama.block_count", 2)
      .u32("llama.feed_forward_length", 128)
      .u32("llama.attention.head_count", 4)
      .u32("llama.attention.head_count_kv", 2)
      .f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  return writer;
}

inline GgufWriter& add_tiny_tensors(GgufWriter& writer) {
  return writer.tensor("token_embd.weight", {64, 8}, 0, 64 * 8 * 4)
      .tensor("blk.0.attn_norm.weight", {64}, 0, 256)
      .tensor("blk.1.attn_norm.weight", {64}, 0, 256);
}

}  // namespace quern::checkpoint
