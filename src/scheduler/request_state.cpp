#include "scheduler/request_state.h"

#include <utility>

namespace quern::scheduler {

Running::Running(Waiting&& waiting)
    : id(waiting.id), arrival(waiting.arrival), tokens(std::move(waiting.tokens)) {}

Waiting Running::retract() && {
  pages_.clear();
  return {.id = id, .arrival = arrival, .tokens = std::move(tokens)};
}

bool Running::reserve(cache::PagePool& pool, std::int64_t tokens_total, std::int32_t page_size) {
  while (static_cast<std::int64_t>(pages_.size()) * page_size < tokens_total) {
    auto page = pool.take();
    if (!page) return false;
    page_numbers.push_back(page->page());
    pages_.push_back(std::move(*page));
  }
  return true;
}

}  // namespace quern::scheduler
