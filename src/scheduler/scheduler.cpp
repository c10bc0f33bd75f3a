// The step: decodes, chunks of prompts, pages for both. Who is let in is admission.cpp.
#include "scheduler/scheduler.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/error.h"

namespace quern::scheduler {
namespace {

constexpr std::int32_t kLeastChunk = 16;    // so that a prompt gets on in every step
constexpr std::int32_t kUnknownChunk = 64;  // beside decodes, before anything was measured
constexpr std::int32_t kChunkMultiple = 8;  // rows that kernels take together
constexpr double kMostStretch = 2;          // of Limits::stretch, while many prompts wait

}  // namespace

Scheduler::Scheduler(const Limits& limits, cache::PagePool& pool)
    : limits_(limits),
      cache_(pool, limits.page_size, limits.radix_cache),
      answers_(limits.conservativeness) {}

bool Scheduler::fits(std::int64_t tokens) const {
  return tokens < cache_.total() * limits_.page_size;
}

void Scheduler::add(Arrival arrival) {
  CHECK(!arrival.tokens.empty() && fits(std::ssize(arrival.tokens)), arrival.tokens.size());
  Waiting request;
  request.job.id = arrival.id;
  request.job.arrival = ++arrivals_;
  request.job.prompt_tokens = std::ssize(arrival.tokens);
  request.job.max_new_tokens = arrival.max_new_tokens;
  request.job.priority = limits_.low_priority_first ? -arrival.priority : arrival.priority;
  request.job.tokens = std::move(arrival.tokens);
  request.job.cache_space = std::move(arrival.cache_space);
  request.job.logits_from = arrival.logits_from;
  queue(std::move(request));
}

// Whether `a` ranks before `b`: it is let in earlier and retracted later.
bool Scheduler::before(const Job& a, const Job& b) const {
  if (limits_.policy == Policy::kPriority) {
    const bool a_first = a.overtaken >= limits_.patience, b_first = b.overtaken >= limits_.patience;
    if (a_first != b_first) return a_first;
    if (!a_first && a.priority != b.priority) return a.priority > b.priority;
  }
  return a.arrival < b.arrival;
}

void Scheduler::queue(Waiting&& request) {
  auto place = waiting_.end();
  while (place != waiting_.begin() && before(request.job, std::prev(place)->job)) --place;
  waiting_.insert(place, std::move(request));
}

RequestId Scheduler::last_new() const {
  const auto is_new = [](const Waiting& request) { return !request.job.admitted; };
  const auto last = std::find_if(waiting_.rbegin(), waiting_.rend(), is_new);
  return last == waiting_.rend() ? 0 : last->job.id;
}

const Plan& Scheduler::plan() {
  plan_.batch.clear();
  plan_.row_requests.clear();
  plan_.admitted.clear();
  plan_.out_of_pages.clear();
  plan_.load = load_ = {};
  prefill_left_ = limits_.max_prefill_tokens;
  rows_left_ = limits_.max_prompt_rows;
  time_limit_ = 0;
  ran_out_ = false;
  answers_.step();
  for (Running& request : running_) request.tokens_planned = 0;
  // Decodes first, so that a long prompt never holds up those that already speak.
  if (limits_.mixed || prefilled_last_) plan_decodes();
  const bool decodes = load_.tokens > 0;
  if (limits_.mixed || !decodes) {
    set_time_limit();
    plan_prefills();
    if (plan_.out_of_pages.empty() && !ran_out_) admit();
  }
  const bool prefills = load_.tokens > 0 && !decodes;
  if (!limits_.mixed && !decodes && !prefills) plan_decodes();
  prefilled_last_ = prefills;
  // Requests may have been retracted after they were chosen: the batch is laid out at the end.
  for (Running& request : running_) {
    if (request.tokens_planned > 0) schedule(request, request.tokens_planned);
  }
  return plan_;
}

void Scheduler::plan_decodes() {
  for (auto request = running_.begin(); request != running_.end();) {
    const auto current = request++;
    // An answer may have gone on by several tokens at once.
    const std::int32_t pending = current->tokens_pending();
    if (pending != 1 && (pending > current->tokens_appended || pending == 0)) continue;
    const auto more = static_cast<std::int32_t>(std::min<std::int64_t>(pending - 1, prefill_left_));
    const RequestId id = current->job.id;
    if (!reserve_or_retract(current, current->tokens_computed + 1 + more)) {
      if (!plan_.out_of_pages.empty()) return;
      break;  // it ranked last, so nobody follows it
    }
    // Whoever ranked last may be gone, and may have been the next.
    request = std::next(std::find_if(running_.begin(), running_.end(),
                                     [&](const Running& other) { return other.job.id == id; }));
    current->tokens_planned = 1 + more;
    prefill_left_ -= more;
    load_.add(current->tokens_computed, 1 + more);
  }
}

// The prompts of those that run; all their pages are reserved.
void Scheduler::plan_prefills() {
  for (Running& request : running_) {
    if (request.tokens_pending() < 2 || request.tokens_planned > 0) continue;
    request.tokens_planned = static_cast<std::int32_t>(chunk_of(request));
    prefill_left_ -= request.tokens_planned;
    rows_left_ -= request.extra_rows(request.tokens_planned);
    load_.add(request.tokens_computed, request.tokens_planned);
  }
}

// How long this step may take for the sake of those that decode in it.
void Scheduler::set_time_limit() {
  if (load_.tokens == 0) return;
  if (!step_time_.known()) {
    prefill_left_ = std::min<std::int64_t>(prefill_left_, kUnknownChunk);
    return;
  }
  double prompts = static_cast<double>(waiting_.size());
  for (const Running& request : running_) prompts += request.tokens_pending() > 1 ? 1 : 0;
  const double more = std::min(prompts / load_.tokens, limits_.stretch * (kMostStretch - 1));
  time_limit_ = (limits_.stretch + more) * step_time_.predict(load_);
}

// Tokens of a prompt that fit this step: by its budget and by the time that it may take.
std::int64_t Scheduler::chunk_of(const Running& request) {
  std::int64_t most = std::min<std::int64_t>(request.tokens_pending(), prefill_left_);
  if (const std::int64_t rows = request.extra_rows(most); rows > rows_left_) {
    most = std::min<std::int64_t>(most, request.tokens_pending() - 1) - (rows - rows_left_);
  }
  if (time_limit_ == 0 || most <= 0) return std::max<std::int64_t>(most, 0);
  const auto in_time = [&](std::int64_t count) {
    StepLoad load = load_;
    load.add(request.tokens_computed, count);
    return step_time_.predict(load) <= time_limit_;
  };
  std::int64_t low = 0, high = most + 1;
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (in_time(middle) ? low : high) = middle;
  }
  if (low < most && low > 8 * kChunkMultiple) low -= low % kChunkMultiple;
  // The first prompt of a step gets on whatever it costs.
  const bool first = prefill_left_ == limits_.max_prefill_tokens;
  return first ? std::max<std::int64_t>(low, std::min<std::int64_t>(most, kLeastChunk)) : low;
}

// Pages for `tokens` of a request, taken from those that rank last where none is left. False where
// the request itself ranks last (it is retracted) or is alone (it is out of pages).
bool Scheduler::reserve_or_retract(RunningList::iterator request, std::int64_t tokens) {
  while (!request->reserve(tokens)) {
    if (running_.size() == 1) {
      plan_.out_of_pages.push_back(request->job.id);
      return false;
    }
    ran_out_ = true;
    answers_.ran_out();
    const auto victim = std::prev(running_.end());
    const bool itself = victim == request;
    ++victim->job.retractions;
    retract(victim);
    if (itself) return false;
  }
  return true;
}

void Scheduler::retract(RunningList::iterator request) {
  Waiting waiting;
  waiting.job = std::move(*request).retract();
  running_.erase(request);
  ++retracted_;
  queue(std::move(waiting));
}

void Scheduler::schedule(Running& request, std::int32_t count) {
  Batch& batch = plan_.batch;
  const auto begin = static_cast<std::int32_t>(batch.token_ids.size());
  const auto* first = request.job.tokens.data() + request.tokens_computed;
  batch.token_ids.insert(batch.token_ids.end(), first, first + count);
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t position = request.tokens_computed + i;
    batch.positions.push_back(position);
    if (position >= request.job.logits_from && i + 1 < request.tokens_pending()) {
      batch.logit_rows.push_back(begin + i);
      plan_.row_requests.push_back(request.job.id);
    }
  }
  batch.sequences.push_back({begin, count, request.tokens_computed + count, request.page_numbers});
  plan_.load.add(request.tokens_computed, count);
  if (count == request.tokens_pending()) {
    batch.logit_rows.push_back(begin + count - 1);
    plan_.row_requests.push_back(request.job.id);
  }
}

std::vector<RequestId> Scheduler::planned() const {
  std::vector<RequestId> ids;
  for (const Running& request : running_) {
    if (request.tokens_planned > 0) ids.push_back(request.job.id);
  }
  return ids;
}

void Scheduler::commit(double seconds) {
  step_time_.observe(plan_.load, seconds);
  for (Running& request : running_) {
    // A prompt's pages are found by others from now on; an answer's when it has ended.
    const bool prefill = request.tokens_planned > 1;
    request.tokens_computed += request.tokens_planned;
    request.tokens_planned = 0;
    if (prefill) request.share();
  }
}

void Scheduler::append(RequestId id, std::int32_t token) {
  for (Running& request : running_) {
    if (request.job.id != id) continue;
    if (request.tokens_pending() == 0) request.tokens_appended = 0;
    ++request.tokens_appended;
    request.job.tokens.push_back(token);
    request.job.logits_from = kLastOnly;  // the prompt's were given
    return;
  }
  CHECK(false, id);
}

bool Scheduler::remove(RequestId id) {
  const auto is_it = [&](const auto& request) { return request.job.id == id; };
  const auto running = std::find_if(running_.begin(), running_.end(), is_it);
  if (running == running_.end()) return std::erase_if(waiting_, is_it) > 0;
  // The token that ended it was never appended.
  if (running->tokens_pending() == 0) answers_.ended(running->job.made() + 1);
  running->share();
  running_.erase(running);
  return true;
}

void Scheduler::retract_all() {
  while (!running_.empty()) retract(std::prev(running_.end()));
}

bool Scheduler::flush() {
  if (!running_.empty()) return false;
  if (cache::RadixTree* tree = cache_.tree()) tree->evict(tree->evictable());
  return true;
}

void Scheduler::check() const {
  std::vector<bool> seen(static_cast<std::size_t>(cache_.total()));
  std::int64_t pages = 0;
  const auto place = [&](std::int32_t page) {
    CHECK(!seen.at(static_cast<std::size_t>(page)), page);
    seen[static_cast<std::size_t>(page)] = true;
    ++pages;
  };
  if (const cache::RadixTree* tree = cache_.tree()) {
    tree->check();
    tree->for_each_page(place);
  }
  for (const Running& request : running_) {
    request.check();
    for (const cache::PageRef& page : request.own_pages()) place(page.page());
  }
  CHECK(pages == cache_.pool().used(), pages, cache_.pool().used());
  const auto ranked = [&](const auto& a, const auto& b) { return before(a.job, b.job); };
  CHECK(std::is_sorted(running_.begin(), running_.end(), ranked));
  CHECK(std::is_sorted(waiting_.begin(), waiting_.end(), ranked));
  CHECK(running() <= limits_.max_running, running());
}

}  // namespace quern::scheduler
