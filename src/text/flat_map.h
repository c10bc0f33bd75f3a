// A hash table from 64-bit keys to small values: open addressing in one array, filled once and then
// only read. For the merges of a BPE (pairs of ids) and the edges of a trie, where a node-based map
// costs a cache miss more for each letter of a prompt.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace quern::text {

template <typename Value>
class FlatMap {
 public:
  // The value of `key`, or nullptr. Requires: key is not 2^64 - 1.
  const Value* find(std::uint64_t key) const {
    if (slots_.empty()) return nullptr;
    for (std::size_t i = place(key);; i = (i + 1) & mask_) {
      if (slots_[i].first == key) return &slots_[i].second;
      if (slots_[i].first == kEmpty) return nullptr;
    }
  }

  // Adds the value unless the key is there; says whether it was added.
  bool insert(std::uint64_t key, const Value& value) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    std::size_t i = place(key);
    for (; slots_[i].first != kEmpty; i = (i + 1) & mask_) {
      if (slots_[i].first == key) return false;
    }
    slots_[i] = {key, value};
    ++count_;
    return true;
  }

 private:
  static constexpr std::uint64_t kEmpty = ~std::uint64_t{0};

  std::size_t place(std::uint64_t key) const {
    key *= 0x9E3779B97F4A7C15u;
    return static_cast<std::size_t>(key ^ key >> 32) & mask_;
  }

  void grow() {
    std::vector<std::pair<std::uint64_t, Value>> old(slots_.empty() ? 64 : slots_.size() * 2,
                                                     {kEmpty, Value{}});
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const auto& [key, value] : old) {
      if (key == kEmpty) continue;
      std::size_t i = place(key);
      while (slots_[i].first != kEmpty) i = (i + 1) & mask_;
      slots_[i] = {key, value};
    }
  }

  std::vector<std::pair<std::uint64_t, Value>> slots_;
  std::size_t mask_ = 0;
  std::size_t count_ = 0;
};

}  // namespace quern::text
