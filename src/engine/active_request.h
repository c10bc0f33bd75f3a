// A request on its way through the engine: what its submitter's thread hands over, and what the
// engine's thread keeps of it while it is answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "engine/answer_formats.h"
#include "engine/answer_grammar.h"
#include "engine/logit_edits.h"
#include "engine/output_stream.h"
#include "engine/startup.h"
#include "grammar/compile_queue.h"
#include "quern/engine.h"
#include "scheduler/scheduler.h"
#include "text/detokenizer.h"

namespace quern::engine {

using Clock = std::chrono::steady_clock;

// A request as the engine's thread knows it.
struct Active {
  SamplingParams sampling;
  EventSink sink;
  text::Detokenizer detokenizer;
  OutputStream output;
  LogitEdits edits;
  LogprobOptions logprobs;
  std::vector<std::int32_t> prompt{};            // where its log-probabilities were asked for
  std::vector<TokenLogprobs> prompt_logprobs{};  // until the first event
  ReasoningStart reasoning_start = ReasoningStart::kUnstated;
  std::optional<ThinkingBudget> thinking;
  std::unique_ptr<AnswerGrammar> grammar;  // null: any token may come
  std::uint64_t seed = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t cached_tokens = 0;
  std::int64_t max_tokens = 0;
  Clock::time_point arrived = Clock::now();
  std::optional<Clock::time_point> started{};  // when it was let in first

  // A token of the answer comes into `event`; what ends it: `ends` are the model's end-of-sequence
  // ids. kError: its grammar has no place for the token.
  FinishReason add(std::int32_t token, const std::vector<std::int32_t>& ends, TokenEvent* event);
  Error dead_end() const;  // of its grammar
};

// What another thread asks of the engine's.
struct Command {
  RequestId id = 0;
  bool cancel = false;
  std::vector<std::int32_t> tokens;
  SamplingParams sampling;
  LogprobOptions logprobs;
  std::string cache_space;
  std::int64_t priority = 0;
  std::optional<OutputStream> output;
  std::span<const std::int32_t> shown;  // control tokens that its text needs
  std::string grammar_kind{};           // with a grammar, which is there when it is compiled
  std::shared_ptr<const grammar::Compiled> grammar{};  // other answers share it
  std::optional<Error> error{};                        // why it is not
  EventSink sink;
};

// Requests whose grammars are being compiled. Not synchronised.
class Unready {
 public:
  void add(Command command);
  // False where the request is not here.
  bool forget(RequestId id) { return commands_.erase(id) > 0; }
  // Moves the request to `ready`, if it is here.
  void make_ready(RequestId id, grammar::Outcome outcome, std::vector<Command>* ready);
  std::vector<Command> take_all();
  std::int64_t size() const { return static_cast<std::int64_t>(commands_.size()); }

 private:
  std::unordered_map<RequestId, Command> commands_;
};

// The position of the token that a row of a step tells of.
std::int64_t next_position(const scheduler::Plan& plan, size_t row);
// The grammars of the answers that get a token in a step.
std::vector<AnswerGrammar*> grammars_of(const scheduler::Plan& plan,
                                        const std::unordered_map<RequestId, Active>& active);

// Takes what it needs of a command; its tokens stay there. `seed`: of the engine, for requests that
// bring none. The model must outlive it.
Active make_active(const LoadedModel& loaded, Command* command, std::uint64_t seed);

}  // namespace quern::engine
