#include "engine/scheduler_benchmark.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "cache/page_cache.h"
#include "scheduler/scheduler.h"

namespace quern::engine {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int32_t kPageSize = 16;
constexpr std::int32_t kTreePages = 1'000'000 / kPageSize;
constexpr std::int32_t kPromptTokens = 4096;

double microseconds_since(Clock::time_point begin) {
  return std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
}

SchedulerFigure figure(std::string name, std::vector<double> times, double target,
                       bool worst_counts = false) {
  std::sort(times.begin(), times.end());
  return {std::move(name), times[times.size() / 2], times.back(), target, worst_counts};
}

// Prompts as chats bring them: one of a few system prompts, then words of their own.
std::vector<std::int32_t> prompt(std::mt19937& random, std::int32_t tokens) {
  std::vector<std::int32_t> ids;
  const auto family = static_cast<std::int32_t>(random() % 8);
  for (std::int32_t i = 0; i < tokens; ++i) {
    ids.push_back(i < 512 ? family * 512 + i : static_cast<std::int32_t>(random() % 50'000));
  }
  return ids;
}

class PrefixCache {
 public:
  PrefixCache()
      : pool_(kTreePages + 2 * kPromptTokens / kPageSize), cache_(pool_, kPageSize, true) {
    while (cache_.tree()->pages() < kTreePages) {
      put(prompt(random_, 256 + static_cast<std::int32_t>(random_() % 4096)));
    }
  }

  // Match, then insert what was not there; pages are taken outside the measured time.
  double put(const std::vector<std::int32_t>& tokens) {
    numbers_.clear();
    auto begin = Clock::now();
    auto prefix = cache_.tree()->match("", tokens, &numbers_);
    double time = microseconds_since(begin);
    const auto cached = static_cast<std::size_t>(prefix.pages());
    std::vector<cache::PageRef> pages;
    for (std::size_t i = cached; i < tokens.size() / kPageSize; ++i) {
      pages.push_back(std::move(*cache_.take()));
    }
    const auto rest =
        cache::TokenSpan(tokens).subspan(cached * kPageSize, pages.size() * kPageSize);
    begin = Clock::now();
    const auto lock = cache_.tree()->insert(std::move(prefix), rest, std::move(pages), &numbers_);
    return time + microseconds_since(begin);
  }

  std::vector<double> put_prompts(int count) {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) times.push_back(put(prompt(random_, kPromptTokens)));
    return times;
  }

  std::vector<double> evict_pages(int count) {
    std::vector<double> times;
    for (int i = 0; i < count; ++i) {
      const auto begin = Clock::now();
      cache_.tree()->evict(1);
      times.push_back(microseconds_since(begin));
    }
    return times;
  }

 private:
  std::mt19937 random_{1};
  cache::PagePool pool_;
  cache::PageCache cache_;
  std::vector<std::int32_t> numbers_;
};

// plan, commit and append of steps in which `running` requests decode.
std::vector<double> decode_steps(int running, int count) {
  cache::PagePool pool(running * (count / kPageSize + 64));
  scheduler::Scheduler scheduler(
      {.max_running = running, .max_prefill_tokens = 1 << 20, .page_size = kPageSize}, pool);
  std::mt19937 random(1);
  for (int i = 1; i <= running; ++i) {
    scheduler.add({.id = static_cast<RequestId>(i),
                   .tokens = prompt(random, 700),
                   .max_new_tokens = count + 1});
  }
  std::vector<double> times;
  while (static_cast<int>(times.size()) < count) {
    const auto begin = Clock::now();
    const scheduler::Plan& plan = scheduler.plan();
    const bool decode = static_cast<int>(plan.batch.tokens()) == running && scheduler.queued() == 0;
    scheduler.commit(0.05);
    for (const RequestId id : plan.row_requests) scheduler.append(id, 7);
    if (decode) times.push_back(microseconds_since(begin));
  }
  return times;
}

}  // namespace

std::vector<SchedulerFigure> benchmark_scheduler(int repeats) {
  std::vector<SchedulerFigure> figures;
  {
    PrefixCache cache;
    figures.push_back(
        figure("match + insert of 4096 tokens in a tree of 1M", cache.put_prompts(repeats), 100));
    figures.push_back(figure("evict a page, 10000 times", cache.evict_pages(10'000), 2000, true));
  }
  for (const int running : {1, 64}) {
    figures.push_back(figure(fmt::format("plan + commit, {} running", running),
                             decode_steps(running, std::max(repeats, 100)), 50));
  }
  return figures;
}

}  // namespace quern::engine
