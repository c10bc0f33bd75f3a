// Who runs in a step, and with which pages. The engine calls plan() and commit() once a step; the
// scheduler never sees the model, so it is tested without one. First come, first served: decodes
// first (one token each), then prefills in chunks, in order of arrival. When pages run out the
// request that came last goes back to the queue and is computed again later. The engine's thread.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <vector>

#include "cache/page_pool.h"
#include "core/batch.h"
#include "scheduler/request_state.h"

namespace quern::scheduler {

struct Limits {
  std::int64_t max_running = 64;          // requests in a step
  std::int64_t max_prefill_tokens = 512;  // prompt tokens in a step
  std::int32_t page_size = 16;
};

// What a step computes; valid until the next plan().
struct Plan {
  Batch batch;
  std::vector<RequestId> row_requests;  // [rows] whose next token each logit row gives
  // Alone in the cache and no page left: the request cannot grow and must end. Not in the batch.
  std::vector<RequestId> out_of_pages;
};

class Scheduler {
 public:
  // `pool` outlives the scheduler.
  Scheduler(const Limits& limits, cache::PagePool& pool);

  // Queues a request. Requires: its tokens and one more fit the pool (fits()), the id is new.
  void add(RequestId id, std::vector<std::int32_t> tokens);
  bool fits(std::int64_t tokens) const;

  // Chooses this step's tokens and reserves their pages. An empty batch: nothing to do.
  const Plan& plan();

  // The requests whose tokens the plan holds.
  std::vector<RequestId> planned() const;

  // The planned tokens are in the cache now. Requests of row_requests go on through append() or end
  // through remove().
  void commit();
  void append(RequestId id, std::int32_t token);

  // Forgets a request wherever it is; its pages come back. False where it is not known.
  bool remove(RequestId id);

  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t queued() const { return static_cast<std::int64_t>(waiting_.size()); }
  bool idle() const { return running_.empty() && waiting_.empty(); }

 private:
  void plan_running();
  void admit();
  bool reserve_or_retract(std::list<Running>::iterator request, std::int64_t tokens);
  void schedule(Running& request, std::int32_t count);

  Limits limits_;
  cache::PagePool& pool_;
  std::uint64_t arrivals_ = 0;
  std::int64_t prefill_left_ = 0;  // tokens of this step's budget
  std::deque<Waiting> waiting_;    // in order of arrival
  std::list<Running> running_;     // in order of arrival
  Plan plan_;
};

}  // namespace quern::scheduler
