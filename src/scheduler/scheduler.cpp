#include "scheduler/scheduler.h"

#include <algorithm>
#include <iterator>

#include "base/error.h"

namespace quern::scheduler {

Scheduler::Scheduler(const Limits& limits, cache::PagePool& pool) : limits_(limits), pool_(pool) {}

bool Scheduler::fits(std::int64_t tokens) const {
  return tokens < std::int64_t{pool_.total()} * limits_.page_size;
}

void Scheduler::add(RequestId id, std::vector<std::int32_t> tokens) {
  CHECK(!tokens.empty() && fits(static_cast<std::int64_t>(tokens.size())), tokens.size());
  waiting_.push_back({.id = id, .arrival = ++arrivals_, .tokens = std::move(tokens)});
}

const Plan& Scheduler::plan() {
  plan_.batch.clear();
  plan_.row_requests.clear();
  plan_.out_of_pages.clear();
  prefill_left_ = limits_.max_prefill_tokens;
  for (Running& request : running_) request.tokens_planned = 0;
  plan_running();
  admit();
  // Requests may have been retracted after they were chosen: the batch is laid out at the end.
  for (Running& request : running_) {
    if (request.tokens_planned > 0) schedule(request, request.tokens_planned);
  }
  return plan_;
}

void Scheduler::plan_running() {
  // Decodes first, so that a long prompt never holds up those that already speak.
  for (const bool decode : {true, false}) {
    for (auto request = running_.begin(); request != running_.end();) {
      const auto current = request++;
      const std::int32_t pending = current->tokens_pending();
      if ((pending == 1) != decode || current->tokens_planned > 0) continue;
      const auto count =
          static_cast<std::int32_t>(decode ? 1 : std::min<std::int64_t>(pending, prefill_left_));
      if (count == 0) continue;
      const RequestId id = current->id;
      if (!reserve_or_retract(current, current->tokens_computed + count)) {
        // `current` may be gone; what follows it in the list may be too.
        request = std::find_if(running_.begin(), running_.end(),
                               [&](const Running& other) { return other.id == id; });
        if (request != running_.end()) ++request;
        continue;
      }
      current->tokens_planned = count;
      if (!decode) prefill_left_ -= count;
      request = std::next(current);
    }
  }
}

// Pages for `tokens` of a request, taken from those that came last where the pool is empty. False
// where the request itself came last (it is retracted) or is alone (it is out of pages).
bool Scheduler::reserve_or_retract(std::list<Running>::iterator request, std::int64_t tokens) {
  while (!request->reserve(pool_, tokens, limits_.page_size)) {
    if (running_.size() == 1) {
      plan_.out_of_pages.push_back(request->id);
      return false;
    }
    const auto victim = std::prev(running_.end());
    const bool itself = victim == request;
    waiting_.push_front(std::move(*victim).retract());
    running_.erase(victim);
    if (itself) return false;
  }
  return true;
}

// Takes waiting requests in while there is room. All pages of a prompt are taken at once, so that
// requests let in together do not starve each other halfway.
void Scheduler::admit() {
  if (!plan_.out_of_pages.empty()) return;
  while (!waiting_.empty() && running() < limits_.max_running && prefill_left_ > 0) {
    const auto tokens = static_cast<std::int64_t>(waiting_.front().tokens.size());
    const std::int64_t pages = tokens / limits_.page_size + 1;  // the next token's page too
    if (pages > pool_.total() - pool_.used()) return;
    Running request(std::move(waiting_.front()));
    waiting_.pop_front();
    CHECK(request.reserve(pool_, tokens + 1, limits_.page_size), tokens, pool_.used());
    request.tokens_planned =
        static_cast<std::int32_t>(std::min<std::int64_t>(tokens, prefill_left_));
    prefill_left_ -= request.tokens_planned;
    const auto place = std::find_if(running_.begin(), running_.end(), [&](const Running& other) {
      return other.arrival > request.arrival;
    });
    running_.insert(place, std::move(request));
  }
}

void Scheduler::schedule(Running& request, std::int32_t count) {
  Batch& batch = plan_.batch;
  const auto begin = static_cast<std::int32_t>(batch.token_ids.size());
  for (std::int32_t i = 0; i < count; ++i) {
    const std::int32_t position = request.tokens_computed + i;
    batch.token_ids.push_back(request.tokens[static_cast<std::size_t>(position)]);
    batch.positions.push_back(position);
  }
  batch.sequences.push_back({begin, count, request.tokens_computed + count, request.page_numbers});
  if (count == request.tokens_pending()) {
    batch.logit_rows.push_back(begin + count - 1);
    plan_.row_requests.push_back(request.id);
  }
}

std::vector<RequestId> Scheduler::planned() const {
  std::vector<RequestId> ids;
  for (const Running& request : running_) {
    if (request.tokens_planned > 0) ids.push_back(request.id);
  }
  return ids;
}

void Scheduler::commit() {
  for (Running& request : running_) {
    request.tokens_computed += request.tokens_planned;
    request.tokens_planned = 0;
  }
}

void Scheduler::append(RequestId id, std::int32_t token) {
  for (Running& request : running_) {
    if (request.id != id) continue;
    request.tokens.push_back(token);
    return;
  }
  CHECK(false, id);
}

bool Scheduler::remove(RequestId id) {
  const auto is_it = [&](const auto& request) { return request.id == id; };
  if (std::erase_if(running_, is_it) > 0) return true;
  return std::erase_if(waiting_, is_it) > 0;
}

}  // namespace quern::scheduler
