// Where the scheduler's pages come from: the pool's free ones, then those of cached prefixes that
// nobody uses, oldest first. One thread (the engine's).
#pragma once

#include <cstdint>
#include <optional>

#include "cache/page_pool.h"
#include "cache/radix_tree.h"

namespace quern::cache {

class PageCache {
 public:
  // Without `keeps_prefixes` (--disable-radix-cache) there is no tree and pages only come and go.
  // `pool` outlives the cache.
  PageCache(PagePool& pool, std::int32_t page_size, bool keeps_prefixes) : pool_(pool) {
    if (keeps_prefixes) tree_.emplace(page_size);
  }

  // A page to write, or nullopt where every page is in use.
  std::optional<PageRef> take() {
    auto page = pool_.take();
    if (page || !tree_ || tree_->evict(1) == 0) return page;
    return pool_.take();
  }

  RadixTree* tree() { return tree_ ? &*tree_ : nullptr; }  // null: prefixes are not kept
  const RadixTree* tree() const { return tree_ ? &*tree_ : nullptr; }
  const PagePool& pool() const { return pool_; }

  std::int64_t total() const { return pool_.total(); }
  // Pages that take() could give, those of unused prefixes counted.
  std::int64_t available() const { return total() - pool_.used() + cached(); }
  // Pages of prefixes that nobody uses.
  std::int64_t cached() const { return tree_ ? tree_->evictable() : 0; }
  std::int64_t used() const { return total() - available(); }

 private:
  PagePool& pool_;
  std::optional<RadixTree> tree_;
};

}  // namespace quern::cache
