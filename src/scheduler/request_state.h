// The states of a request in the scheduler, as types that own their pages. Waiting owns none;
// Running holds a lock on the cached prefix that it reads and owns the pages that it writes, and
// gives both back when it goes. Prefill and decode are one state: what differs is only how many
// tokens are not computed yet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "cache/page_cache.h"
#include "quern/types.h"

namespace quern::scheduler {

inline constexpr std::int32_t kLastOnly = std::numeric_limits<std::int32_t>::max();

// What a request is in any state.
struct Job {
  RequestId id = 0;
  std::uint64_t arrival = 0;         // first come, first served
  std::vector<std::int32_t> tokens;  // the prompt and the answer so far
  std::int64_t prompt_tokens = 0;    // of these
  std::int64_t max_new_tokens = 0;   // the longest answer
  std::string cache_space;           // prefixes are shared within one only
  std::int64_t priority = 0;         // higher first, where the policy asks for it
  std::int64_t overtaken = 0;        // later requests that were let in before it
  std::int64_t retractions = 0;      // because pages ran out
  bool admitted = false;             // it has run before
  // The logits of tokens from this position on are wanted, not of the last one only; they are
  // computed even where the prefix is cached.
  std::int32_t logits_from = kLastOnly;

  std::int64_t made() const { return static_cast<std::int64_t>(tokens.size()) - prompt_tokens; }
};

struct Waiting {
  Job job;
  // Its cached prefix when the tree had this version.
  std::uint64_t matched_version = ~std::uint64_t{0};
  std::int64_t matched_tokens = 0;
  // Whom it waits for because they compute what it needs too, and how many these were so far.
  RequestId leader = 0;
  int leaders = 0;
};

class Running {
 public:
  // Locks the longest cached prefix, but for the last token, whose logits are wanted.
  Running(Job&& request, cache::PageCache& cache, std::int32_t page_size);

  // Takes pages until `tokens_total` fit; false (keeping what it got) where every page is in use.
  bool reserve(std::int64_t tokens_total);

  // Hands the full pages of computed tokens over to the tree, where others find them. They are only
  // read from now on.
  void share();

  // Back to the queue: what is computed stays in the tree while it can, the pages are let go.
  Job retract() &&;

  Job job;
  std::int32_t tokens_computed = 0;        // whose keys and values are in the cache
  std::int32_t tokens_planned = 0;         // of this step
  std::int32_t tokens_appended = 0;        // since the last one was computed
  std::vector<std::int32_t> page_numbers;  // in order of position, as the batch wants them

  std::int32_t tokens_pending() const {
    return static_cast<std::int32_t>(job.tokens.size()) - tokens_computed;
  }
  // Logits besides the last token's that its next `count` tokens bring.
  std::int64_t extra_rows(std::int64_t count) const {
    const std::int64_t end =
        std::min<std::int64_t>(tokens_computed + count, std::ssize(job.tokens) - 1);
    return std::max<std::int64_t>(end - std::max(tokens_computed, job.logits_from), 0);
  }
  std::int64_t shared_pages() const { return prefix_.pages(); }
  const std::vector<cache::PageRef>& own_pages() const { return pages_; }

  // CHECKs that the pages add up and that nothing to be written is shared.
  void check() const;

 private:
  cache::PageCache* cache_;
  std::int32_t page_size_;
  cache::RadixTree::Lock prefix_;      // of the first shared_pages()
  std::vector<cache::PageRef> pages_;  // those behind it
};

}  // namespace quern::scheduler
