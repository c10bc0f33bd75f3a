// A set of short byte strings numbered by the caller: one array of letters, one open-addressed hash
// table. For vocabularies of hundreds of thousands of tokens, where a node-based map costs an
// allocation each and a cache miss more for each word of a prompt.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace quern::text {

class TokenTable {
 public:
  // The value of `key`, or -1.
  std::int32_t find(std::string_view key) const {
    if (slots_.empty()) return -1;
    const std::uint64_t hash = hash_of(key);
    for (std::size_t i = hash & mask_;; i = (i + 1) & mask_) {
      const Slot& slot = slots_[i];
      if (slot.value < 0) return -1;
      if (slot.tag == static_cast<std::uint32_t>(hash >> 32) && slot.length == key.size() &&
          letters_.compare(slot.begin, slot.length, key) == 0) {
        return slot.value;
      }
    }
  }

  // Adds the key unless it is there; says whether it was added. Requires: value >= 0; all keys
  // together stay below 4 GiB.
  bool insert(std::string_view key, std::int32_t value) {
    if ((count_ + 1) * 2 > slots_.size()) grow();
    if (find(key) >= 0) return false;
    const Slot slot{static_cast<std::uint32_t>(hash_of(key) >> 32),
                    static_cast<std::uint32_t>(letters_.size()),
                    static_cast<std::uint32_t>(key.size()), value};
    letters_.append(key);
    place(slot, hash_of(key));
    ++count_;
    return true;
  }

  std::size_t size() const { return count_; }
  std::size_t longest() const {
    std::size_t length = 0;
    for (const Slot& slot : slots_) length = slot.length > length ? slot.length : length;
    return length;
  }

 private:
  struct Slot {
    std::uint32_t tag = 0, begin = 0, length = 0;
    std::int32_t value = -1;  // -1: free
  };

  static std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
    const auto product = static_cast<unsigned __int128>(a) * b;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
  }

  static std::uint64_t hash_of(std::string_view key) {
    constexpr std::uint64_t kA = 0xA0761D6478BD642Fu, kB = 0xE7037ED1A0B428DBu;
    std::uint64_t hash = kA ^ key.size();
    const char* at = key.data();
    std::size_t left = key.size();
    for (; left >= 8; at += 8, left -= 8) {
      std::uint64_t part;
      std::memcpy(&part, at, 8);
      hash = mix(hash ^ part, kB);
    }
    std::uint64_t part = 0;
    if (left > 0) std::memcpy(&part, at, left);
    return mix(hash ^ part, kB ^ left);
  }

  void place(const Slot& slot, std::uint64_t hash) {
    std::size_t i = hash & mask_;
    while (slots_[i].value >= 0) i = (i + 1) & mask_;
    slots_[i] = slot;
  }

  void grow() {
    std::vector<Slot> old(slots_.empty() ? 64 : slots_.size() * 2);
    old.swap(slots_);
    mask_ = slots_.size() - 1;
    for (const Slot& slot : old) {
      if (slot.value >= 0) {
        place(slot, hash_of(std::string_view(letters_).substr(slot.begin, slot.length)));
      }
    }
  }

  std::string letters_;
  std::vector<Slot> slots_;
  std::size_t mask_ = 0, count_ = 0;
};

}  // namespace quern::text
