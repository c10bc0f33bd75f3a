// Who is let in: the order of the policy, pages for the prompt and for the answer as far as it can
// be foreseen, waiting for a prefix that is just being computed, and who must make room.
#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"
#include "scheduler/scheduler.h"

namespace quern::scheduler {
namespace {

// Of a queue, as many are looked at in a step: matching a thousand prompts would cost more than
// their order gains.
constexpr std::size_t kWindow = 128;
// Tokens of a common prefix that are worth a step of waiting.
constexpr std::int64_t kWorthWaiting = 32;
// A request waits for no more others than this, one after the other.
constexpr int kMostLeaders = 8;
constexpr std::int64_t kMostDoublings = 16;  // of what is reserved

std::int64_t common_prefix(const std::vector<std::int32_t>& a, const std::vector<std::int32_t>& b) {
  return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
}

}  // namespace

void Scheduler::admit() {
  if (waiting_.empty() || prefill_left_ <= 0) return;
  for (const WaitingList::iterator place : candidates()) {
    if (waits_for_leader(*place)) continue;
    Admission result = try_admit(place);
    while (result == Admission::kNoRoom && can_preempt(place->job)) {
      retract(std::prev(running_.end()));
      result = try_admit(place);
    }
    // Nobody goes past one that finds no room: it would starve.
    if (result != Admission::kDone) return;
  }
}

std::vector<Scheduler::WaitingList::iterator> Scheduler::candidates() {
  std::vector<WaitingList::iterator> list;
  for (auto place = waiting_.begin(); place != waiting_.end() && list.size() < kWindow; ++place) {
    list.push_back(place);
  }
  if (limits_.policy != Policy::kLpm || cache_.tree() == nullptr) return list;
  for (const auto place : list) matched(*place);
  const auto impatient = [&](const auto& place) {
    return place->job.overtaken >= limits_.patience;
  };
  const auto rest = std::stable_partition(list.begin(), list.end(), impatient);
  std::stable_sort(rest, list.end(), [](const auto& a, const auto& b) {
    return a->matched_tokens > b->matched_tokens;
  });
  return list;
}

// Tokens of its prompt that are cached now, all but the last counted.
std::int64_t Scheduler::matched(Waiting& request) {
  const cache::RadixTree& tree = *cache_.tree();
  if (request.matched_version != tree.version()) {
    const cache::TokenSpan all(request.job.tokens);
    const auto most = std::min(all.size() - 1, static_cast<std::size_t>(request.job.logits_from));
    request.matched_tokens = tree.match_length(request.job.cache_space, all.first(most));
    request.matched_version = tree.version();
  }
  return request.matched_tokens;
}

// Whether one that runs computes just now what this request needs too: then it waits until that is
// cached, and others go first. So a prefix that many bring at the same moment is computed once.
bool Scheduler::waits_for_leader(Waiting& request) {
  if (cache_.tree() == nullptr || request.job.overtaken >= limits_.patience) return false;
  for (const Running& other : running_) {
    if (other.tokens_pending() < 2 || other.job.cache_space != request.job.cache_space) continue;
    std::int64_t common = common_prefix(request.job.tokens, other.job.tokens);
    common = std::min(common, std::ssize(request.job.tokens) - 1);
    common = std::min<std::int64_t>(common, request.job.logits_from);
    common -= common % limits_.page_size;
    if (common < kWorthWaiting || common < matched(request) + kWorthWaiting) continue;
    if (request.leader != other.job.id) {
      if (request.leaders == kMostLeaders) continue;
      ++request.leaders;
      request.leader = other.job.id;
    }
    return true;
  }
  return false;
}

// Lets one in where there is room. All pages of a prompt are taken at once, so that requests let in
// together do not starve each other halfway; pages of answers are only counted.
Scheduler::Admission Scheduler::try_admit(WaitingList::iterator place) {
  if (running() >= limits_.max_running) return Admission::kNoRoom;
  Running request(std::move(place->job), cache_, limits_.page_size);
  const std::int64_t tokens = std::ssize(request.job.tokens);
  const std::int64_t pages = tokens / limits_.page_size + 1;  // the next token's page too
  std::int64_t wanted = pages - request.shared_pages();
  if (!running_.empty()) {
    wanted += expected_growth(request.job, pages);
    for (const Running& other : running_) {
      wanted += expected_growth(other.job, std::ssize(other.page_numbers));
    }
  }
  const bool room = wanted <= cache_.available();
  const std::int64_t chunk = room ? chunk_of(request) : 0;
  if (chunk == 0) {
    place->job = std::move(request).retract();
    return room ? Admission::kNoTime : Admission::kNoRoom;
  }
  waiting_.erase(place);
  CHECK(request.reserve(tokens + 1), tokens, cache_.available());
  request.tokens_planned = static_cast<std::int32_t>(chunk);
  prefill_left_ -= chunk;
  rows_left_ -= request.extra_rows(chunk);
  load_.add(request.tokens_computed, chunk);
  if (!std::exchange(request.job.admitted, true)) {
    plan_.admitted.push_back({request.job.id, request.tokens_computed});
  }
  note_overtaken(request.job.arrival);
  const auto rank = std::find_if(running_.begin(), running_.end(), [&](const Running& other) {
    return before(request.job, other.job);
  });
  running_.insert(rank, std::move(request));
  return Admission::kDone;
}

// Pages that a request with `pages` will take still, as far as it can be foreseen. For whom pages
// ran out before it is twice as many each time, so that nobody goes to and fro.
std::int64_t Scheduler::expected_growth(const Job& job, std::int64_t pages) const {
  std::int64_t rest = answers_.remaining(job.made(), job.max_new_tokens);
  if (job.retractions > 0) {
    rest = (rest + limits_.page_size) << std::min<std::int64_t>(job.retractions, kMostDoublings);
    rest = std::min(rest, job.max_new_tokens - job.made());
  }
  const std::int64_t tokens = std::ssize(job.tokens) + std::max<std::int64_t>(rest, 0);
  const std::int64_t end =
      std::min((tokens + limits_.page_size - 1) / limits_.page_size, cache_.total());
  return std::max<std::int64_t>(end - pages, 0);
}

// Whether the one that ranks last may be retracted for `job`, and all such together make room.
bool Scheduler::can_preempt(const Job& job) const {
  if (limits_.policy != Policy::kPriority || limits_.preemption_threshold < 0) return false;
  std::int64_t pages = 0;
  for (const Running& other : running_) {
    const bool lower = job.priority - other.job.priority > limits_.preemption_threshold;
    if (lower && other.job.overtaken < limits_.patience) pages += std::ssize(other.page_numbers);
  }
  return pages > 0 && std::ssize(job.tokens) / limits_.page_size + 1 <= cache_.available() + pages;
}

// Somebody who came at `arrival` was let in: those that came earlier lose patience.
void Scheduler::note_overtaken(std::uint64_t arrival) {
  for (auto place = waiting_.begin(); place != waiting_.end();) {
    const auto current = place++;
    if (current->job.arrival > arrival) continue;
    if (++current->job.overtaken != limits_.patience) continue;
    auto rank = waiting_.begin();
    while (rank != current && !before(current->job, rank->job)) ++rank;
    waiting_.splice(rank, waiting_, current);
  }
}

}  // namespace quern::scheduler
