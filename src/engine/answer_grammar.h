// The grammar of one answer while it is generated: which tokens may come, where it begins behind
// reasoning, where it ends. And the thread that works this out for the next tokens of a step while
// the model runs.
#pragma once

#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "engine/answer_formats.h"
#include "grammar/compiler.h"

namespace quern::engine {

class AnswerGrammar {
 public:
  // `kind` is its word in messages, `ends` are the model's end-of-sequence ids. Where the prompt
  // has opened reasoning, or the answer opens it with its first token, the grammar begins behind
  // it, and no end may come before. The formats must outlive it.
  AnswerGrammar(std::shared_ptr<const grammar::Compiled> compiled, std::string kind,
                const AnswerFormats& formats, ReasoningStart start,
                std::span<const std::int32_t> ends);

  // Works out which tokens may come next. Any thread, while no other uses the object.
  void prepare();
  double prepared_seconds() const { return seconds_; }  // that the last one took

  // The row with −∞ where no token may come, in `scratch`, which may hold it already.
  std::span<const float> apply(std::span<const float> row, std::vector<float>* scratch) const;
  // A token has come, with the text that it completed. False: it may not, and the answer is stuck.
  bool take(std::int32_t token, const std::string& text);
  // The tokens that must come next, whatever the model says; none within reasoning.
  std::vector<std::int32_t> forced();
  bool complete() const { return !reasons_ && matcher_.complete(); }  // an end may come
  bool ended() const { return !reasons_ && matcher_.ended(); }
  const std::string& kind() const { return kind_; }

 private:
  grammar::Matcher matcher_;
  grammar::Mask mask_;
  std::string kind_;
  std::span<const std::int32_t> ends_;
  std::unique_ptr<ReasoningParser> parser_;  // until the grammar has begun
  std::int32_t opening_ = -1;                // the token that may still open reasoning
  bool reasons_ = false;
  double seconds_ = 0;
};

// One thread; the engine's takes part when its own work is done. It costs the compute threads of a
// machine without a free processor their time, a chunk of a loop at most at once.
class MaskThread {
 public:
  MaskThread();
  ~MaskThread();
  // Begins to prepare these, which nobody else may use until finish() returns.
  void start(std::vector<AnswerGrammar*> grammars);
  void finish();

 private:
  void work();
  void take_jobs();

  std::vector<AnswerGrammar*> jobs_;
  std::atomic<size_t> next_{0};
  std::mutex mutex_;  // guards what follows
  std::condition_variable wake_, idle_;
  bool busy_ = false, begun_ = false, stopping_ = false;
  std::thread thread_;
};

}  // namespace quern::engine
