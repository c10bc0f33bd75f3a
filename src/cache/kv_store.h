// The memory of the KV cache: every page of every layer, in the layout that the attention backend's
// inner loops want. Written once when a token is stored, never repacked when read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/dtype.h"

namespace quern::cache {

enum class PageFormat : std::uint8_t {
  kRows,    // key [page_size][key_stride], value [page_size][value_stride]: the plain layout
  kPacked,  // slabs of 16 tokens as the vector kernels read them: key [key_stride/2][16][2] bf16 or
            // [key_stride][16] f32, value [8][value_stride][2] bf16 or [16][value_stride] f32
};

// How one page of one KV head looks. A record is the keys, then the values. Of latent attention
// (MLA) the keys are the latent rows [latent_dim + rope_dim], one a token for all heads, and there
// are no values: they are the latent part of the keys. Behind the values of a kI8 record stand its
// scales [2][page_size] f32, of each slot's key and of its value: x = stored · scale.
struct KvLayout {
  PageFormat format = PageFormat::kRows;
  // kBF16, kF32, kF8E4M3 or kI8 (not of latent rows). 8-bit elements lie in the order of bf16 ones.
  DType dtype = DType::kBF16;
  std::int32_t page_size = 16;
  std::int32_t kv_heads = 0, head_dim = 0, v_head_dim = 0;
  // Dims as stored: rounded up to what the format's lanes need; the rest is zero.
  std::int32_t key_stride = 0, value_stride = 0;
  bool fp8_values = false;  // what is stored is rounded to fp8_e4m3 first, as a simulated cache is

  bool operator==(const KvLayout&) const = default;
  bool latent() const { return v_head_dim == 0; }
  std::int64_t element_bytes() const { return dtype_info(dtype).block_bytes; }
  std::int64_t key_elements() const { return std::int64_t{page_size} * key_stride; }
  std::int64_t record_bytes() const {
    return scales_at() + (dtype == DType::kI8 ? std::int64_t{page_size} * 2 * 4 : 0);
  }
  // Where the scales of a kI8 record stand, in bytes.
  std::int64_t scales_at() const {
    return std::int64_t{page_size} * (key_stride + value_stride) * element_bytes();
  }
  std::int64_t bytes_per_token(std::int64_t layers) const {
    return layers * kv_heads * record_bytes() / page_size;
  }
  // Where an element stands in its record, in elements.
  std::int64_t key_index(std::int64_t slot, std::int64_t dim) const;
  std::int64_t value_index(std::int64_t slot, std::int64_t dim) const;
  // An element of a record as f32: for plain loops, not for fast ones.
  float element(const std::byte* record, std::int64_t index) const;
  // The slot whose key or value an element belongs to.
  std::int64_t slot_of(std::int64_t index) const;
};

// The plain and the packed layout for a model's heads; strides are rounded up as the format needs.
KvLayout rows_layout(DType dtype, std::int32_t page_size, std::int32_t kv_heads,
                     std::int32_t head_dim, std::int32_t v_head_dim);
// Requires: page_size a multiple of 16.
KvLayout packed_layout(DType dtype, std::int32_t page_size, std::int32_t kv_heads,
                       std::int32_t head_dim, std::int32_t v_head_dim);

// Plain latent rows, nothing rounded up: kv_heads 1, no values.
KvLayout latent_layout(DType dtype, std::int32_t page_size, std::int32_t row_dim);

// Records stand as [page][layer][kv_head], so that what a request holds lies together and huge
// pages cost little. Memory is reserved at once and touched page by page. The engine's thread and
// its pool only.
class KvStore {
 public:
  // Throws: kOutOfMemory.
  KvStore(const KvLayout& layout, std::int64_t layers, std::int64_t pages);
  ~KvStore();
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;

  const KvLayout& layout() const { return layout_; }
  std::int64_t pages() const { return pages_; }
  // Writes one token of one KV head. Slot 0 clears the record first: slots that are not written yet
  // are multiplied by zero probabilities, so they must not hold a NaN of an earlier owner.
  // key [head_dim], value [v_head_dim] f32, null where there are none. Different records: any
  // threads at once.
  void store(std::int64_t layer, std::int64_t page, std::int64_t kv_head, std::int64_t slot,
             const float* key, const float* value);
  std::byte* record(std::int64_t layer, std::int64_t page, std::int64_t kv_head) {
    return base_ + ((page * layers_ + layer) * layout_.kv_heads + kv_head) * layout_.record_bytes();
  }

 private:
  KvLayout layout_;
  std::int64_t layers_, pages_;
  void* mapping_ = nullptr;
  std::size_t mapping_bytes_;
  std::byte* base_ = nullptr;  // in the mapping, at a huge page's boundary
};

}  // namespace quern::cache
