// Grammars are compiled on threads of their own, in the order asked for, and kept for later
// requests. A compilation cannot be cut short: who waits too long for one is told so, and it goes
// on.
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "grammar/grammar.h"

namespace quern::grammar {

struct QueueLimits {
  size_t waiting = 64;  // compilations that are asked for and not begun
  std::int64_t cache_bytes = std::int64_t{256} << 20;  // of compiled grammars that are kept
  std::chrono::milliseconds patience{10'000};          // from asking to the result
};

// Either is set.
struct Outcome {
  std::shared_ptr<const Compiled> grammar{};
  std::optional<Error> error{};  // kGrammarInvalid, kGrammarTimeout
};

class CompileQueue {
 public:
  using Told = std::function<void(Outcome)>;

  using MakeVocabulary = std::function<std::unique_ptr<Vocabulary>(bool with_marks)>;

  // `vocabulary` is called once for each of its two, when one is needed first, on the queue's
  // thread.
  CompileQueue(MakeVocabulary vocabulary, QueueLimits limits);
  // Nobody is told any more. Waits for a compilation that runs.
  ~CompileQueue();

  // Calls `told` once: at once, on this thread, where the grammar is kept, else on the queue's.
  // Any thread; `told` must not throw nor ask. Throws: kGrammarQueueFull.
  void ask(Source source, Told told);

 private:
  using Clock = std::chrono::steady_clock;
  struct Asker {
    Told told;
    Clock::time_point deadline;
  };
  struct Job {
    Source source;
    std::vector<Asker> askers{};  // none: they all gave up
  };
  struct Kept {
    std::string key;
    std::shared_ptr<const Compiled> grammar;
  };

  void work();
  void watch();
  void finish(const std::string& key, const Outcome& outcome);
  void keep(const std::string& key, std::shared_ptr<const Compiled> grammar);
  Outcome compile(const Source& source);
  const Vocabulary& vocabulary(bool with_marks);
  std::vector<std::pair<Told, std::string>> take_late();

  const MakeVocabulary make_vocabulary_;
  const QueueLimits limits_;
  std::once_flag made_[2];
  std::unique_ptr<Vocabulary> vocabularies_[2];  // without and with marks

  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, look_;
  std::unordered_map<std::string, Job> jobs_;  // asked for and not finished, by what is compiled
  std::deque<std::string> waiting_;            // keys of those that are not begun
  std::list<Kept> kept_;                       // the last used in front
  std::unordered_map<std::string, std::list<Kept>::iterator> kept_by_key_;
  std::int64_t kept_bytes_ = 0;
  bool stopping_ = false;
  // A second one, so that one compilation that takes too long does not stand before all others.
  static constexpr int kWorkers = 2;
  std::vector<std::thread> threads_;
};

}  // namespace quern::grammar
