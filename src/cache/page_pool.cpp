#include "cache/page_pool.h"

namespace quern::cache {

PageRef::~PageRef() {
  if (pool_) pool_->free_.push_back(page_);
}

PagePool::PagePool(std::int32_t pages) : total_(pages) {
  free_.reserve(static_cast<std::size_t>(pages));
  for (std::int32_t page = pages; page > 0; --page) free_.push_back(page - 1);
}

std::optional<PageRef> PagePool::take() {
  if (free_.empty()) return std::nullopt;
  const std::int32_t page = free_.back();
  free_.pop_back();
  return PageRef(this, page);
}

}  // namespace quern::cache
