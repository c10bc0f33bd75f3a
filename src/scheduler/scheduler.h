// Who runs in a step, and with which pages. The engine calls plan() and commit() once a step; the
// scheduler never sees the model, so it is tested without one. A step holds a token of every
// request that decodes and, in the time that is left, chunks of prompts. A request starts from its
// cached prefix. When pages run out, unused prefixes go; then the request that ranks last goes back
// to the queue and is computed again later. docs/scheduling.md. The engine's thread.
#pragma once

#include <cstdint>
#include <list>
#include <string>
#include <vector>

#include "cache/page_cache.h"
#include "core/batch.h"
#include "scheduler/answer_length.h"
#include "scheduler/request_state.h"
#include "scheduler/step_time.h"

namespace quern::scheduler {

// Who is let in next. In each policy a request waits for another that computes its prefix just now,
// and one that Limits::patience later requests have overtaken is first.
enum class Policy {
  kFcfs,      // first come, first served
  kLpm,       // longest cached prefix first
  kPriority,  // highest priority first, then as they came
};

struct Limits {
  std::int64_t max_running = 64;          // requests in a step
  std::int64_t max_prefill_tokens = 512;  // prompt tokens in a step
  std::int64_t max_prompt_rows = 128;  // logits in a step, besides those of requests' last tokens
  std::int32_t page_size = 16;
  bool radix_cache = true;  // computed prefixes are kept for later requests
  Policy policy = Policy::kFcfs;
  bool low_priority_first = false;  // kPriority: the lowest value is the highest priority
  // kPriority: who ranks higher by more than this takes the place of one that runs; -1: never.
  std::int64_t preemption_threshold = 10;
  double conservativeness = 1;  // of what is reserved for answers; see AnswerLength
  bool mixed = true;            // chunks of prompts beside decodes; else in steps of their own
  // A step that gives others their next token takes up to this many times what it would without
  // prompts; up to twice that where many prompts and few others wait.
  double stretch = 2;
  std::int64_t patience = 64;
};

// A request that is to be computed.
struct Arrival {
  RequestId id = 0;
  std::vector<std::int32_t> tokens{};
  std::string cache_space{};             // prefixes are shared within one only
  std::int32_t logits_from = kLastOnly;  // see Job
  std::int64_t max_new_tokens = 1;       // the longest answer
  std::int64_t priority = 0;
};

// What a step computes; valid until the next plan().
struct Plan {
  Batch batch;
  std::vector<RequestId> row_requests;  // [rows] whose next token each logit row gives; of a
                                        // prompt several where they are wanted
  // Requests that were let in for the first time, and how many of their tokens were cached.
  struct Admitted {
    RequestId id;
    std::int64_t cached_tokens;
  };
  std::vector<Admitted> admitted;
  // Alone in the cache and no page left: the request cannot grow and must end. Not in the batch.
  std::vector<RequestId> out_of_pages;
  StepLoad load;
};

class Scheduler {
 public:
  // `pool` outlives the scheduler.
  Scheduler(const Limits& limits, cache::PagePool& pool);

  // Queues a request. Requires: its tokens and one more fit the pool (fits()), the id is new.
  void add(Arrival arrival);
  bool fits(std::int64_t tokens) const;

  // Chooses this step's tokens and reserves their pages. An empty batch: nothing to do.
  const Plan& plan();

  // The requests whose tokens the plan holds.
  std::vector<RequestId> planned() const;

  // The planned tokens are in the cache now. Requests of row_requests go on through append() or end
  // through remove(). `seconds` that the step took, 0 where they are unknown.
  void commit(double seconds = 0);
  // Several tokens may be appended before the next plan, which computes them together.
  void append(RequestId id, std::int32_t token);

  // Forgets a request wherever it is; its pages come back, but for those that the tree keeps for
  // later ones. False where it is not known.
  bool remove(RequestId id);

  // Every running request goes back to the queue; nothing is planned any more.
  void retract_all();

  // Drops every cached prefix. False, and nothing is dropped, where a request runs.
  bool flush();

  // Of the requests that were never let in the one that ranks last, or 0: who makes room in a queue
  // that is full.
  RequestId last_new() const;

  // CHECKs that every page is in exactly one place and that nothing shared will be written. Called
  // after each step in debug builds and in tests. Cost: O(pages · page_size).
  void check() const;

  const cache::PageCache& cache() const { return cache_; }
  const StepTime& step_time() const { return step_time_; }

  std::int64_t running() const { return static_cast<std::int64_t>(running_.size()); }
  std::int64_t queued() const { return static_cast<std::int64_t>(waiting_.size()); }
  std::int64_t retracted() const { return retracted_; }  // since the start
  bool idle() const { return running_.empty() && waiting_.empty(); }

 private:
  using RunningList = std::list<Running>;
  using WaitingList = std::list<Waiting>;
  enum class Admission { kDone, kNoRoom, kNoTime };

  bool before(const Job& a, const Job& b) const;
  void queue(Waiting&& request);

  void plan_decodes();
  void plan_prefills();
  void set_time_limit();
  std::int64_t chunk_of(const Running& request);
  bool reserve_or_retract(RunningList::iterator request, std::int64_t tokens);
  void retract(RunningList::iterator request);
  void schedule(Running& request, std::int32_t count);

  void admit();
  std::vector<WaitingList::iterator> candidates();
  bool waits_for_leader(Waiting& request);
  Admission try_admit(WaitingList::iterator place);
  bool can_preempt(const Job& job) const;
  std::int64_t expected_growth(const Job& job, std::int64_t pages) const;
  std::int64_t matched(Waiting& request);
  void note_overtaken(std::uint64_t arrival);

  Limits limits_;
  cache::PageCache cache_;
  AnswerLength answers_;
  StepTime step_time_;
  std::uint64_t arrivals_ = 0;
  std::int64_t retracted_ = 0;
  bool ran_out_ = false;           // in this plan
  bool prefilled_last_ = false;    // without mixing: whose turn it is
  std::int64_t prefill_left_ = 0;  // tokens of this step's budget
  std::int64_t rows_left_ = 0;     // and logits of prompts
  double time_limit_ = 0;          // seconds that this step may take; 0: any
  StepLoad load_;                  // planned so far
  WaitingList waiting_;            // the first in rank in front
  RunningList running_;            // the same
  Plan plan_;
};

}  // namespace quern::scheduler
