#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

#include "cache/kv_store.h"
#include "cache/page_pool.h"

namespace quern::cache {
namespace {

TEST(PagePool, GivesEveryPageOnceAndTakesItBack) {
  PagePool pool(5);
  {
    std::vector<PageRef> refs;
    std::set<std::int32_t> pages;
    while (auto ref = pool.take()) {
      pages.insert(ref->page());
      refs.push_back(std::move(*ref));
    }
    EXPECT_EQ(pages, (std::set<std::int32_t>{0, 1, 2, 3, 4}));
    EXPECT_EQ(pool.used(), 5);
    refs.pop_back();
    EXPECT_EQ(pool.used(), 4);
    PageRef moved = std::move(refs.front());
    EXPECT_EQ(pool.used(), 4);
  }
  EXPECT_EQ(pool.used(), 0);
}

float read(KvStore& store, std::byte* record, std::int64_t index) {
  if (store.layout().dtype == DType::kF32) {
    float value;
    std::memcpy(&value, record + 4 * index, 4);
    return value;
  }
  std::uint16_t bits;
  std::memcpy(&bits, record + 2 * index, 2);
  return f32_from_bf16(bits);
}

TEST(KvStore, EveryElementHasAPlaceOfItsOwn) {
  for (DType dtype : {DType::kBF16, DType::kF32, DType::kI8, DType::kF8E4M3}) {
    for (const KvLayout& layout :
         {rows_layout(dtype, 4, 2, 5, 3), packed_layout(dtype, 16, 2, 64, 64),
          packed_layout(dtype, 64, 2, 20, 36)}) {
      std::set<std::int64_t> places;
      for (std::int64_t slot = 0; slot < layout.page_size; ++slot) {
        for (std::int64_t d = 0; d < layout.head_dim; ++d) {
          EXPECT_TRUE(places.insert(layout.key_index(slot, d)).second);
        }
        for (std::int64_t d = 0; d < layout.v_head_dim; ++d) {
          EXPECT_TRUE(places.insert(layout.value_index(slot, d)).second);
        }
      }
      EXPECT_GE(*places.begin(), 0);
      EXPECT_LT(*places.rbegin() * layout.element_bytes(), layout.record_bytes());
    }
  }
}

TEST(KvStore, StoresATokenAndClearsTheRecordAtSlotZero) {
  for (DType dtype : {DType::kBF16, DType::kF32}) {
    KvStore store(packed_layout(dtype, 32, 2, 20, 12), 3, 4);
    std::vector<float> key(20), value(12);
    for (size_t i = 0; i < 20; ++i) key[i] = static_cast<float>(i) + 0.5f;
    for (size_t i = 0; i < 12; ++i) value[i] = -static_cast<float>(i);
    std::byte* record = store.record(2, 3, 1);
    std::memset(record, 0xFF, static_cast<size_t>(store.layout().record_bytes()));  // NaN
    store.store(2, 3, 1, 0, key.data(), value.data());
    store.store(2, 3, 1, 17, key.data(), value.data());
    for (std::int64_t slot = 0; slot < 32; ++slot) {
      for (std::int64_t d = 0; d < 20; ++d) {
        const float stored = read(store, record, store.layout().key_index(slot, d));
        EXPECT_FALSE(std::isnan(stored));
        if (slot == 17) {
          EXPECT_EQ(stored, key[static_cast<size_t>(d)]);
        } else if (slot > 0) {
          EXPECT_EQ(stored, 0.0f);
        }
      }
    }
    EXPECT_EQ(read(store, record, store.layout().value_index(17, 11)), -11.0f);
  }
}

TEST(KvStore, LatentRowsTakeTheirBytesAndNothingMore) {
  for (const auto& [dtype, bytes] :
       {std::pair{DType::kF32, 4}, {DType::kBF16, 2}, {DType::kF8E4M3, 1}}) {
    for (std::int32_t page_size : {1, 16, 32, 64, 128}) {
      const KvLayout layout = latent_layout(dtype, page_size, 576);
      EXPECT_EQ(layout.bytes_per_token(61), 61 * 576 * bytes);
      KvStore store(layout, 2, 3);
      std::vector<float> row(576);
      for (size_t i = 0; i < row.size(); ++i) row[i] = static_cast<float>(i % 16) - 7.5f;
      for (std::int32_t slot = 0; slot < page_size; ++slot) {
        store.store(1, 2, 0, slot, row.data(), nullptr);
      }
      const std::byte* record = store.record(1, 2, 0);
      for (std::int64_t d = 0; d < 576; ++d) {
        EXPECT_EQ(layout.element(record, layout.key_index(page_size - 1, d)),
                  row[static_cast<size_t>(d)]);
      }
    }
  }
}

TEST(KvStore, Fp8RowsKeepTheNearestValue) {
  KvStore store(latent_layout(DType::kF8E4M3, 16, 3), 1, 1);
  const float row[] = {0.3f, -1000.0f, 0x1p-12f};
  store.store(0, 0, 0, 5, row, nullptr);
  const KvLayout& layout = store.layout();
  const auto stored = [&](std::int64_t d) {
    return layout.element(store.record(0, 0, 0), layout.key_index(5, d));
  };
  EXPECT_EQ(stored(0), 0.3125f);
  EXPECT_EQ(stored(1), -448.0f);
  EXPECT_EQ(stored(2), 0.0f);
}

TEST(KvStore, Int8KeepsATokenToA127thOfItsLargestValue) {
  for (const KvLayout& layout :
       {packed_layout(DType::kI8, 32, 2, 20, 36), rows_layout(DType::kI8, 4, 2, 5, 3)}) {
    KvStore store(layout, 2, 3);
    EXPECT_EQ(layout.record_bytes(),
              layout.page_size * (layout.key_stride + layout.value_stride + 8));
    std::byte* record = store.record(1, 2, 1);
    const auto stored = [&](std::int64_t slot, std::int32_t d, bool key) {
      const std::int64_t index = key ? layout.key_index(slot, d) : layout.value_index(slot, d);
      EXPECT_EQ(layout.slot_of(index), slot);
      return layout.element(record, index);
    };
    std::vector<float> key(static_cast<size_t>(layout.head_dim)),
        value(static_cast<size_t>(layout.v_head_dim));
    for (std::int64_t slot = 0; slot < layout.page_size; ++slot) {
      const auto size = static_cast<float>(slot * slot) * 1e-3f;
      for (size_t d = 0; d < key.size(); ++d)
        key[d] = size * std::sin(static_cast<float>(d) + 1.0f);
      for (size_t d = 0; d < value.size(); ++d) value[d] = -size * std::cos(static_cast<float>(d));
      store.store(1, 2, 1, slot, key.data(), value.data());
      for (const auto& [from, is_key] : {std::pair(&key, true), std::pair(&value, false)}) {
        float most = 0;
        for (const float x : *from) most = std::max(most, std::fabs(x));
        for (size_t d = 0; d < from->size(); ++d) {
          const float found = stored(slot, static_cast<std::int32_t>(d), is_key);
          EXPECT_LE(std::fabs(found - (*from)[d]), most / 127 * 0.5001f) << slot;
        }
      }
    }
    // A fault stays one; what is next to nothing becomes it.
    key[0] = std::numeric_limits<float>::infinity();
    std::fill(value.begin(), value.end(), 1e-35f);
    store.store(1, 2, 1, 1, key.data(), value.data());
    EXPECT_TRUE(std::isnan(stored(1, 1, true)));
    EXPECT_EQ(stored(1, 0, false), 0.0f);
    EXPECT_FALSE(std::isnan(stored(2, 0, true)));
  }
}

TEST(KvStore, Fp8KeepsWhatFp8Holds) {
  const KvLayout layout = packed_layout(DType::kF8E4M3, 16, 1, 16, 16);
  KvStore store(layout, 1, 1);
  EXPECT_EQ(layout.record_bytes(), 16 * 32);
  std::vector<float> key(16), value(16);
  for (size_t d = 0; d < 16; ++d) {
    key[d] = 0.37f * static_cast<float>(d + 1);
    value[d] = -1e3f;
  }
  store.store(0, 0, 0, 5, key.data(), value.data());
  for (int d = 0; d < 16; ++d) {
    EXPECT_EQ(layout.element(store.record(0, 0, 0), layout.key_index(5, d)),
              f32_from_f8_e4m3(f8_e4m3_from_f32(key[static_cast<size_t>(d)])));
    EXPECT_EQ(layout.element(store.record(0, 0, 0), layout.value_index(5, d)), -448.0f);
  }
}

}  // namespace
}  // namespace quern::cache
