// Which pages of the KV cache are free, and who owns the others: a PageRef is a page, move-only,
// and gives it back when it goes. One thread (the engine's).
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace quern::cache {

class PagePool;

class PageRef {
 public:
  PageRef(PageRef&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)), page_(other.page_) {}
  PageRef& operator=(PageRef&& other) noexcept {
    std::swap(pool_, other.pool_);
    std::swap(page_, other.page_);
    return *this;
  }
  ~PageRef();
  std::int32_t page() const { return page_; }

 private:
  friend class PagePool;
  PageRef(PagePool* pool, std::int32_t page) : pool_(pool), page_(page) {}
  PagePool* pool_;
  std::int32_t page_;
};

// Outlives every PageRef it gave.
class PagePool {
 public:
  explicit PagePool(std::int32_t pages);
  PagePool(const PagePool&) = delete;
  PagePool& operator=(const PagePool&) = delete;

  // A free page, or nullopt where there is none.
  std::optional<PageRef> take();
  std::int32_t total() const { return total_; }
  std::int32_t used() const { return total_ - static_cast<std::int32_t>(free_.size()); }

 private:
  friend class PageRef;
  std::int32_t total_;
  std::vector<std::int32_t> free_;  // the last one is taken next: recently used memory is warm
};

}  // namespace quern::cache
