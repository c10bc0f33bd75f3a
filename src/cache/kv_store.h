// The memory of the KV cache: every page of every layer, in the layout that the attention backend's
// inner loops want. Written once when a token is stored, never repacked when read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/dtype.h"

namespace quern::cache {

enum class PageFormat : std::uint8_t {
  kRows,    // key [page_size][head_dim], value [page_size][v_head_dim]: the plain reference layout
  kPacked,  // key [head_dim/2][16][2] per 16 tokens, value [page_size/2][v_head_dim][2]
};

// How one page of one KV head looks. A record is the keys, then the values.
struct KvLayout {
  PageFormat format = PageFormat::kRows;
  DType dtype = DType::kBF16;  // kBF16 or kF32
  std::int32_t page_size = 16;
  std::int32_t kv_heads = 0, head_dim = 0, v_head_dim = 0;
  // Dims as stored: rounded up to what the format's lanes need; the rest is zero.
  std::int32_t key_stride = 0, value_stride = 0;

  std::int64_t element_bytes() const { return dtype == DType::kF32 ? 4 : 2; }
  std::int64_t key_elements() const { return std::int64_t{page_size} * key_stride; }
  std::int64_t record_bytes() const {
    return std::int64_t{page_size} * (key_stride + value_stride) * element_bytes();
  }
  std::int64_t bytes_per_token(std::int64_t layers) const {
    return layers * kv_heads * record_bytes() / page_size;
  }
};

// Records stand as [layer][page][kv_head]. Memory is reserved at once and touched page by page.
// The engine's thread writes; nobody else reads.
class KvStore {
 public:
  // Throws: kOutOfMemory.
  KvStore(const KvLayout& layout, std::int64_t layers, std::int64_t pages);
  ~KvStore();
  KvStore(const KvStore&) = delete;
  KvStore& operator=(const KvStore&) = delete;

  const KvLayout& layout() const { return layout_; }
  std::int64_t pages() const { return pages_; }
  std::byte* record(std::int64_t layer, std::int64_t page, std::int64_t kv_head) {
    return base_ + ((layer * pages_ + page) * layout_.kv_heads + kv_head) * layout_.record_bytes();
  }

 private:
  KvLayout layout_;
  std::int64_t pages_;
  std::size_t bytes_;
  std::byte* base_ = nullptr;
};

}  // namespace quern::cache
