#include "cache/kv_store.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/error.h"
#include "base/errors/base.h"

namespace quern::cache {
namespace {

constexpr std::int64_t kSlab = 16;
constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::int32_t round_up(std::int32_t value, std::int32_t unit) {
  return (value + unit - 1) / unit * unit;
}

// Of the packed bf16 layout, whose words are pairs: dims 2i and 2i+1 of a key, tokens 2i and 2i+1
// of a value. The strides are constant, so the compiler makes plain loops of these.
void store_packed_bf16(const KvLayout& layout, std::int64_t slot, const float* key,
                       const float* value, std::byte* record) {
  auto* words = reinterpret_cast<std::uint16_t*>(record);
  std::uint16_t* keys = words + slot / kSlab * kSlab * layout.key_stride + slot % kSlab * 2;
  for (std::int32_t d = 0; d + 1 < layout.head_dim; d += 2, keys += 2 * kSlab) {
    keys[0] = bf16_from_f32(key[d]);
    keys[1] = bf16_from_f32(key[d + 1]);
  }
  if (layout.head_dim % 2 != 0) keys[0] = bf16_from_f32(key[layout.head_dim - 1]);
  std::uint16_t* values =
      words + layout.key_elements() + slot / 2 * 2 * layout.value_stride + slot % 2;
  for (std::int32_t d = 0; d < layout.v_head_dim; ++d) values[2 * d] = bf16_from_f32(value[d]);
}

void store_any(const KvLayout& layout, std::int64_t slot, const float* key, const float* value,
               std::byte* record) {
  const auto put = [&](std::int64_t index, float x) {
    if (layout.fp8_values) x = f32_from_f8_e4m3(f8_e4m3_from_f32(x));
    if (layout.dtype == DType::kF32) {
      std::memcpy(record + 4 * index, &x, 4);
    } else if (layout.dtype == DType::kF8E4M3) {
      record[index] = std::byte{f8_e4m3_from_f32(x)};
    } else {
      const std::uint16_t bits = bf16_from_f32(x);
      std::memcpy(record + 2 * index, &bits, 2);
    }
  };
  for (std::int32_t d = 0; d < layout.head_dim; ++d) put(layout.key_index(slot, d), key[d]);
  for (std::int32_t d = 0; d < layout.v_head_dim; ++d) put(layout.value_index(slot, d), value[d]);
}

// One token's key or value as int8 and one scale, to the nearest 127th of its largest value. What
// is no number makes a NaN of the scale, and so of all that is read back.
template <typename Index>
void store_int8(const float* x, std::int32_t dim, Index index, std::byte* record, float* scale) {
  constexpr float kLeast = 1e-30f;  // smaller values count as zeros: their scales would be denormal
  float most = 0;
  bool finite = true;
  for (std::int32_t d = 0; d < dim; ++d) {
    most = std::max(most, std::fabs(x[d]));
    finite = finite && std::isfinite(x[d]);
  }
  const bool zero = most < kLeast;
  *scale = !finite ? std::numeric_limits<float>::quiet_NaN() : zero ? 0.0f : most / 127.0f;
  const float factor = finite && !zero ? 127.0f / most : 0.0f;
  for (std::int32_t d = 0; d < dim; ++d) {
    const float scaled = finite ? x[d] * factor : 0.0f;
    const auto rounded = static_cast<std::int32_t>(scaled + std::copysign(0.5f, scaled));
    record[index(d)] = static_cast<std::byte>(std::clamp(rounded, -127, 127));
  }
}

void store_int8(const KvLayout& layout, std::int64_t slot, const float* key, const float* value,
                std::byte* record) {
  auto* scales = reinterpret_cast<float*>(record + layout.scales_at());
  store_int8(
      key, layout.head_dim, [&](std::int64_t d) { return layout.key_index(slot, d); }, record,
      scales + slot);
  store_int8(
      value, layout.v_head_dim, [&](std::int64_t d) { return layout.value_index(slot, d); }, record,
      scales + layout.page_size + slot);
}

}  // namespace

std::int64_t KvLayout::key_index(std::int64_t slot, std::int64_t dim) const {
  if (format == PageFormat::kRows) return slot * key_stride + dim;
  const std::int64_t slab = slot / kSlab * kSlab * key_stride, token = slot % kSlab;
  return dtype == DType::kF32 ? slab + dim * kSlab + token
                              : slab + (dim / 2 * kSlab + token) * 2 + dim % 2;
}

std::int64_t KvLayout::value_index(std::int64_t slot, std::int64_t dim) const {
  const std::int64_t values = key_elements();
  if (format == PageFormat::kRows || dtype == DType::kF32) {
    return values + slot * value_stride + dim;
  }
  return values + (slot / 2 * value_stride + dim) * 2 + slot % 2;
}

float KvLayout::element(const std::byte* record, std::int64_t index) const {
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, record + 4 * index, 4);
    return value;
  }
  if (dtype == DType::kF8E4M3)
    return f32_from_f8_e4m3(std::to_integer<std::uint8_t>(record[index]));
  if (dtype == DType::kI8) {
    const std::int64_t slot = slot_of(index) + (index < key_elements() ? 0 : page_size);
    float scale;
    std::memcpy(&scale, record + scales_at() + 4 * slot, 4);
    return static_cast<float>(static_cast<std::int8_t>(record[index])) * scale;
  }
  std::uint16_t bits;
  std::memcpy(&bits, record + 2 * index, 2);
  return f32_from_bf16(bits);
}

std::int64_t KvLayout::slot_of(std::int64_t index) const {
  const bool value = index >= key_elements();
  if (value) index -= key_elements();
  const std::int64_t stride = value ? value_stride : key_stride;
  if (format == PageFormat::kRows || (value && dtype == DType::kF32)) return index / stride;
  if (value) return index / (2 * stride) * 2 + index % 2;
  const std::int64_t slab = index / (kSlab * stride) * kSlab;
  return slab + (dtype == DType::kF32 ? index : index / 2) % kSlab;
}

KvLayout rows_layout(DType dtype, std::int32_t page_size, std::int32_t kv_heads,
                     std::int32_t head_dim, std::int32_t v_head_dim) {
  return {.format = PageFormat::kRows,
          .dtype = dtype,
          .page_size = page_size,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .v_head_dim = v_head_dim,
          .key_stride = head_dim,
          .value_stride = v_head_dim};
}

KvLayout latent_layout(DType dtype, std::int32_t page_size, std::int32_t row_dim) {
  return rows_layout(dtype, page_size, 1, row_dim, 0);
}

KvLayout packed_layout(DType dtype, std::int32_t page_size, std::int32_t kv_heads,
                       std::int32_t head_dim, std::int32_t v_head_dim) {
  CHECK(page_size % kSlab == 0, page_size);
  return {.format = PageFormat::kPacked,
          .dtype = dtype,
          .page_size = page_size,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .v_head_dim = v_head_dim,
          .key_stride = round_up(head_dim, 16),
          .value_stride = round_up(v_head_dim, 16)};
}

KvStore::KvStore(const KvLayout& layout, std::int64_t layers, std::int64_t pages)
    : layout_(layout), layers_(layers), pages_(pages) {
  const auto bytes =
      static_cast<std::size_t>(layers * pages * layout.kv_heads * layout.record_bytes());
  mapping_bytes_ = bytes + kHugePage;
  mapping_ = mmap(nullptr, mapping_bytes_, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping_ == MAP_FAILED) {
    throw Error(errors::kOutOfMemory, {{"what", "the KV cache"}, {"bytes", bytes}});
  }
  const auto address = reinterpret_cast<std::uintptr_t>(mapping_);
  base_ = reinterpret_cast<std::byte*>((address + kHugePage - 1) / kHugePage * kHugePage);
  // Decoding walks over all of a request's pages: with small ones each record costs a page walk.
  // Where huge pages are not to be had, nothing is lost but speed.
  madvise(base_, bytes, MADV_HUGEPAGE);
}

KvStore::~KvStore() { munmap(mapping_, mapping_bytes_); }

void KvStore::store(std::int64_t layer, std::int64_t page, std::int64_t kv_head, std::int64_t slot,
                    const float* key, const float* value) {
  std::byte* at = record(layer, page, kv_head);
  if (slot == 0) std::memset(at, 0, static_cast<std::size_t>(layout_.record_bytes()));
  if (layout_.dtype == DType::kI8) return store_int8(layout_, slot, key, value, at);
  const bool packed = layout_.format == PageFormat::kPacked && layout_.dtype == DType::kBF16;
  if (packed && !layout_.fp8_values) {
    store_packed_bf16(layout_, slot, key, value, at);
  } else {
    store_any(layout_, slot, key, value, at);
  }
}

}  // namespace quern::cache
