// The states of a request in the scheduler, as types that own their pages. Waiting owns none;
// Running owns its pages and gives them back when it goes. Prefill and decode are one state: what
// differs is only how many tokens are not computed yet.
#pragma once

#include <cstdint>
#include <vector>

#include "cache/page_pool.h"
#include "quern/types.h"

namespace quern::scheduler {

struct Waiting {
  RequestId id = 0;
  std::uint64_t arrival = 0;         // first come, first served
  std::vector<std::int32_t> tokens;  // the prompt; after a retraction the answer so far too
};

class Running {
 public:
  explicit Running(Waiting&& waiting);

  // Back to the queue; the pages return to the pool, all tokens will be computed again.
  Waiting retract() &&;

  RequestId id = 0;
  std::uint64_t arrival = 0;
  std::vector<std::int32_t> tokens;        // prompt and answer so far
  std::int32_t tokens_computed = 0;        // whose keys and values are in the cache
  std::int32_t tokens_planned = 0;         // of this step
  std::vector<std::int32_t> page_numbers;  // of `pages`, as the batch wants them

  std::int32_t tokens_pending() const {
    return static_cast<std::int32_t>(tokens.size()) - tokens_computed;
  }
  // Takes pages until `tokens` fit; false (keeping what it got) where the pool is empty.
  bool reserve(cache::PagePool& pool, std::int64_t tokens_total, std::int32_t page_size);

 private:
  std::vector<cache::PageRef> pages_;
};

}  // namespace quern::scheduler
