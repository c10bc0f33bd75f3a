#include "scheduler/request_state.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace quern::scheduler {

Running::Running(Job&& request, cache::PageCache& cache, std::int32_t page_size)
    : job(std::move(request)), cache_(&cache), page_size_(page_size) {
  if (cache_->tree() == nullptr) return;
  const cache::TokenSpan all(job.tokens);
  const auto most = std::min(all.size() - 1, static_cast<std::size_t>(job.logits_from));
  prefix_ = cache_->tree()->match(job.cache_space, all.first(most), &page_numbers);
  tokens_computed = static_cast<std::int32_t>(shared_pages()) * page_size_;
}

bool Running::reserve(std::int64_t tokens_total) {
  while (std::ssize(page_numbers) * page_size_ < tokens_total) {
    auto page = cache_->take();
    if (!page) return false;
    page_numbers.push_back(page->page());
    pages_.push_back(std::move(*page));
  }
  return true;
}

void Running::share() {
  const std::int64_t shared = shared_pages(), full = tokens_computed / page_size_;
  if (cache_->tree() == nullptr || full == shared) return;
  const auto added = static_cast<std::ptrdiff_t>(full - shared);
  std::vector<cache::PageRef> handed(std::make_move_iterator(pages_.begin()),
                                     std::make_move_iterator(pages_.begin() + added));
  pages_.erase(pages_.begin(), pages_.begin() + added);
  // The tree's numbers may be others, of equal pages that somebody else computed.
  std::vector<std::int32_t> numbers;
  const cache::TokenSpan all(job.tokens);
  prefix_ = cache_->tree()->insert(std::move(prefix_),
                                   all.subspan(static_cast<std::size_t>(shared * page_size_),
                                               static_cast<std::size_t>(added * page_size_)),
                                   std::move(handed), &numbers);
  std::copy(numbers.begin(), numbers.end(), page_numbers.begin() + shared);
}

Job Running::retract() && {
  share();
  pages_.clear();
  prefix_ = {};
  return std::move(job);
}

void Running::check() const {
  const auto pages = std::ssize(page_numbers);
  CHECK(shared_pages() + std::ssize(pages_) == pages, shared_pages(), pages_.size(), pages);
  const std::vector<std::int32_t> prefix = prefix_.page_numbers();
  CHECK(std::equal(prefix.begin(), prefix.end(), page_numbers.begin()), job.id);
  for (std::size_t i = 0; i < pages_.size(); ++i) {
    const auto at = static_cast<std::size_t>(shared_pages()) + i;
    CHECK(page_numbers[at] == pages_[i].page(), at, page_numbers[at], pages_[i].page());
  }
  // Whatever is still to be computed lies behind the shared pages.
  CHECK(tokens_computed >= shared_pages() * page_size_, tokens_computed, shared_pages());
  CHECK(tokens_planned == 0 || tokens_computed + tokens_planned <= pages * page_size_,
        tokens_computed, tokens_planned, pages);
}

}  // namespace quern::scheduler
