// Byte strings with a value each, to find all that a text begins with. Filled once and then only
// read; any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "text/flat_map.h"

namespace quern::text {

class Trie {
 public:
  static constexpr std::uint32_t kRoot = 0;
  static constexpr std::uint32_t kNowhere = ~std::uint32_t{0};

  // Requires: value >= 0. A key that is there keeps its value; says whether it was added.
  bool insert(std::string_view key, std::int32_t value) {
    std::uint32_t node = kRoot;
    for (const char c : key) {
      const std::uint64_t edge = edge_of(node, c);
      if (edges_.insert(edge, static_cast<std::uint32_t>(values_.size()))) values_.push_back(-1);
      node = *edges_.find(edge);
    }
    if (values_[node] >= 0) return false;
    values_[node] = value;
    return true;
  }

  // The node behind `node` along a byte, or kNowhere.
  std::uint32_t next(std::uint32_t node, char c) const {
    const std::uint32_t* child = edges_.find(edge_of(node, c));
    return child == nullptr ? kNowhere : *child;
  }
  // Of the key that ends at this node, or -1.
  std::int32_t value(std::uint32_t node) const { return values_[node]; }

 private:
  static std::uint64_t edge_of(std::uint32_t node, char c) {
    return std::uint64_t{node} << 8 | static_cast<std::uint8_t>(c);
  }

  FlatMap<std::uint32_t> edges_;  // node << 8 | byte → node
  std::vector<std::int32_t> values_ = {-1};
};

}  // namespace quern::text
