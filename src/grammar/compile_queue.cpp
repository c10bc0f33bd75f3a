#include "grammar/compile_queue.h"

#include <algorithm>

#include "base/errors/base.h"
#include "base/errors/grammar.h"

namespace quern::grammar {

CompileQueue::CompileQueue(MakeVocabulary vocabulary, QueueLimits limits)
    : make_vocabulary_(std::move(vocabulary)), limits_(limits) {
  for (int i = 0; i < kWorkers; ++i) threads_.emplace_back([this] { work(); });
  threads_.emplace_back([this] { watch(); });
}

CompileQueue::~CompileQueue() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    waiting_.clear();
    jobs_.clear();
  }
  wake_.notify_all();
  look_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void CompileQueue::ask(Source source, Told told) {
  const std::string key = std::string(source.notation == Notation::kEbnf ? "e" : "t") +
                          (source.with_marks ? "m" : "-") + source.before + '\0' + source.text;
  std::shared_ptr<const Compiled> kept;
  {
    const std::lock_guard lock(mutex_);
    if (const auto found = kept_by_key_.find(key); found != kept_by_key_.end()) {
      kept_.splice(kept_.begin(), kept_, found->second);
      kept = found->second->grammar;
    } else {
      const auto job = jobs_.find(key);
      if (job == jobs_.end() && waiting_.size() >= limits_.waiting) {
        throw Error(errors::kGrammarQueueFull);
      }
      Asker asker{std::move(told), Clock::now() + limits_.patience};
      if (job != jobs_.end()) {
        job->second.askers.push_back(std::move(asker));
      } else {
        Job& added = jobs_[key];
        added.source = std::move(source);
        added.askers.push_back(std::move(asker));
        waiting_.push_back(key);
        wake_.notify_one();
      }
      look_.notify_one();
    }
  }
  if (kept) told({.grammar = std::move(kept)});
}

const Vocabulary& CompileQueue::vocabulary(bool with_marks) {
  const int which = with_marks ? 1 : 0;
  std::call_once(made_[which], [&] { vocabularies_[which] = make_vocabulary_(with_marks); });
  return *vocabularies_[which];
}

Outcome CompileQueue::compile(const Source& source) {
  try {
    return {.grammar = std::make_shared<const Compiled>(
                vocabulary(source.with_marks), source.notation, source.text, source.before)};
  } catch (const Error& syntax) {
    if (syntax.id() != errors::kGrammarInvalid) return {.error = syntax};
    return {.error = Error(errors::kGrammarInvalid,
                           {{"kind", source.kind}, {"detail", syntax.field("detail")}})};
  } catch (const std::bad_alloc&) {
    return {.error = Error(errors::kOutOfMemory, {{"what", "a grammar"}, {"bytes", "the needed"}})};
  }
}

void CompileQueue::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return stopping_ || !waiting_.empty(); });
    if (stopping_) return;
    const std::string key = std::move(waiting_.front());
    waiting_.pop_front();
    Job& job = jobs_.at(key);
    if (job.askers.empty()) {  // they all gave up before it began
      jobs_.erase(key);
      continue;
    }
    const Source source = job.source;
    lock.unlock();
    const Outcome outcome = compile(source);
    finish(key, outcome);
    lock.lock();
  }
}

void CompileQueue::finish(const std::string& key, const Outcome& outcome) {
  std::vector<Asker> askers;
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    askers = std::move(jobs_.at(key).askers);
    jobs_.erase(key);
    if (outcome.grammar) keep(key, outcome.grammar);
  }
  for (const Asker& asker : askers) asker.told(outcome);
}

// Requires: mutex_ held.
void CompileQueue::keep(const std::string& key, std::shared_ptr<const Compiled> grammar) {
  const auto size = [](const Kept& kept) {
    return kept.grammar->bytes() + static_cast<std::int64_t>(2 * kept.key.size());
  };
  kept_.push_front({key, std::move(grammar)});
  kept_by_key_[key] = kept_.begin();
  kept_bytes_ += size(kept_.front());
  while (kept_bytes_ > limits_.cache_bytes && !kept_.empty()) {
    kept_bytes_ -= size(kept_.back());
    kept_by_key_.erase(kept_.back().key);
    kept_.pop_back();
  }
}

// Requires: mutex_ held.
std::vector<std::pair<CompileQueue::Told, std::string>> CompileQueue::take_late() {
  std::vector<std::pair<Told, std::string>> late;
  const auto now = Clock::now();
  for (auto& [key, job] : jobs_) {
    std::erase_if(job.askers, [&](Asker& asker) {
      if (asker.deadline > now) return false;
      late.emplace_back(std::move(asker.told), job.source.kind);
      return true;
    });
  }
  return late;
}

void CompileQueue::watch() {
  std::unique_lock lock(mutex_);
  while (!stopping_) {
    auto next = Clock::now() + std::chrono::hours(1);
    for (const auto& [key, job] : jobs_) {
      for (const Asker& asker : job.askers) next = std::min(next, asker.deadline);
    }
    look_.wait_until(lock, next);
    const auto late = take_late();
    lock.unlock();
    for (const auto& [told, kind] : late) {
      told(
          {.error = Error(errors::kGrammarTimeout,
                          {{"kind", kind},
                           {"seconds", std::chrono::duration<double>(limits_.patience).count()}})});
    }
    lock.lock();
  }
}

}  // namespace quern::grammar
