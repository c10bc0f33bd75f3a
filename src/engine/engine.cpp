// The engine behind include/quern/engine.h: one thread that plans, runs the model, samples and
// commits, step after step. Requests and cancels come in by one queue, events go out by the sinks.

#include "quern/engine.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/errors/engine.h"
#include "base/log.h"
#include "engine/active_request.h"
#include "engine/grammars.h"
#include "engine/logprobs.h"
#include "engine/prompt_ids.h"
#include "engine/sampler.h"
#include "engine/scheduling.h"
#include "engine/startup.h"
#include "kernels/aligned_buffer.h"
#include "kernels/ops.h"

namespace quern {
namespace engine {
namespace {

constexpr std::chrono::milliseconds kTimeoutCheck{20};
constexpr double kMaskSeconds = 2;  // for one token of an answer with a grammar
constexpr size_t kMostForced = 32;  // tokens of one step that a grammar leaves no choice of

// A question that its asker waits for. Asked between steps until it says yes or its time is over.
struct Control {
  std::function<bool()> attempt;
  Clock::time_point deadline;
  std::optional<bool> answer{};
};

std::uint64_t clock_seed() {
  return static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
}

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(const EngineOptions& options)
      : loaded_(load_model(options)),
        scheduler_(scheduler_limits(options, loaded_.info), *loaded_.pages),
        allow_special_tokens_(options.allow_special_tokens_in_prompt),
        by_priority_(policy_of(options) == scheduler::Policy::kPriority),
        max_queued_(options.max_queued_requests),
        waiting_limit_(options.request_waiting_timeout),
        running_limit_(options.request_running_timeout),
        seed_(options.random_seed != 0 ? options.random_seed : clock_seed()),
        grammars_(options, loaded_) {
    logits_ = kernels::AlignedBuffer(loaded_.max_rows * loaded_.info.vocab *
                                     static_cast<std::int64_t>(sizeof(float)));
    stats_.pages_total = loaded_.info.pages_total;
    thread_ = std::thread([this] { run(); });
  }

  ~EngineImpl() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    wake_.notify_all();
    thread_.join();
  }

  RequestId submit(const Request& request, EventSink sink) override {
    Sampler::check(request.sampling);
    Command command;
    command.tokens = tokenize(request);
    if (command.tokens.empty()) throw Error(errors::kPromptEmpty);
    check_length(static_cast<std::int64_t>(command.tokens.size()));
    check_logprobs(request, std::ssize(command.tokens), loaded_.info.vocab);
    command.sampling = request.sampling;
    command.logprobs = request.logprobs;
    command.cache_space = request.cache_space;
    command.priority = request.priority;
    if (request.messages) {
      command.shown = loaded_.formats->shown(!request.chat.tools.empty());
      const std::vector<std::string>& stop = loaded_.chat_template->stop();
      command.sampling.stop.insert(command.sampling.stop.end(), stop.begin(), stop.end());
    }
    command.output.emplace(command.sampling);
    command.sink = std::move(sink);
    std::optional<grammar::Source> source = grammars_.source_of(request);
    std::unique_lock lock(mutex_);
    if (draining_ || stopping_) throw Error(errors::kEngineStopping);
    // By priority, who must go is known when it is queued.
    if (max_queued_ > 0 && !by_priority_ && new_ >= max_queued_) throw Error(errors::kQueueFull);
    ++new_;
    const RequestId id = command.id = ++last_id_;
    ++submitted_;
    if (source) {
      command.grammar_kind = source->kind;
      unready_.add(std::move(command));
      lock.unlock();
      compile(id, std::move(*source));
      return id;
    }
    commands_.push_back(std::move(command));
    wake_.notify_all();
    return id;
  }

  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    make_ready(id, {});
    Command command;
    command.id = id;
    command.cancel = true;
    commands_.push_back(std::move(command));
    wake_.notify_all();
  }

  void cancel_all() override {
    const std::lock_guard lock(mutex_);
    cancel_all_ = true;
    wake_.notify_all();
  }

  void pause(PauseMode mode) override {
    ask([this, mode] {
      if (paused_) return true;
      paused_ = true;
      if (mode == PauseMode::kAbort) cancel_everything();
      if (mode == PauseMode::kRetract) scheduler_.retract_all();
      return true;
    });
  }

  void resume() override {
    ask([this] {
      paused_ = false;
      return true;
    });
  }

  bool flush_cache(std::chrono::milliseconds limit) override {
    return ask([this] { return scheduler_.flush(); }, limit);
  }

  void drain(std::chrono::milliseconds limit) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    wake_.notify_all();
    const auto done = [this] { return idle_ && commands_.empty() && unready_.size() == 0; };
    if (idle_changed_.wait_for(lock, limit, done)) return;
    cancel_all_ = true;
    wake_.notify_all();
    idle_changed_.wait(lock, done);
  }

  const EngineInfo& info() const override { return loaded_.info; }

  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    for (const Command& command : commands_) stats.queued += command.cancel ? 0 : 1;
    stats.queued += unready_.size();
    stats.requests_total = submitted_;
    return stats;
  }

  std::vector<std::int32_t> tokenize(const Request& request) const override {
    return prompt_ids(loaded_, request, allow_special_tokens_);
  }

  std::string detokenize(const std::vector<std::int32_t>& ids,
                         bool skip_special_tokens) const override {
    return text_of_ids(loaded_, ids, skip_special_tokens);
  }

 private:
  void check_length(std::int64_t tokens) const {
    if (tokens >= loaded_.info.context_length) {
      throw Error(errors::kContextLengthExceeded,
                  {{"tokens", tokens}, {"limit", loaded_.info.context_length}});
    }
    if (!scheduler_.fits(tokens)) {
      throw Error(
          errors::kCacheTooSmall,
          {{"tokens", tokens}, {"limit", loaded_.info.pages_total * loaded_.info.page_size}});
    }
  }

  // A request waits beside the queue until its grammar is compiled.
  void compile(RequestId id, grammar::Source&& source) {
    try {
      grammars_.queue().ask(std::move(source), [this, id](grammar::Outcome outcome) {
        const std::lock_guard lock(mutex_);
        make_ready(id, std::move(outcome));
        wake_.notify_all();
      });
    } catch (const Error&) {
      const std::lock_guard lock(mutex_);
      if (!unready_.forget(id)) return;  // it was cancelled, and its last event says so
      --new_;
      throw;
    }
  }

  // Requires: mutex_ held.
  void make_ready(RequestId id, grammar::Outcome outcome) {
    unready_.make_ready(id, std::move(outcome), &commands_);
  }

  // Requires: mutex_ not held.
  void begin_unready() {
    std::unique_lock lock(mutex_);
    std::vector<Command> commands = unready_.take_all();
    lock.unlock();
    for (Command& command : commands) begin(std::move(command));
  }

  // The answer of the engine's thread to `attempt`, which it calls between two steps.
  bool ask(std::function<bool()> attempt, std::chrono::milliseconds limit = {}) {
    const std::chrono::milliseconds longest = std::chrono::hours(24);  // now + more might overflow
    Control control{std::move(attempt), Clock::now() + std::min(limit, longest)};
    std::unique_lock lock(mutex_);
    if (stopping_) return false;
    controls_.push_back(&control);
    asked_ = true;
    wake_.notify_all();
    answered_.wait(lock, [&] { return control.answer.has_value(); });
    return *control.answer;
  }

  // The step loop: plan, forward, sample, commit.
  void run() {
    while (take_commands()) {
      if (paused_) continue;
      end_late_ones();
      const auto begin = Clock::now();
      const scheduler::Plan& plan = scheduler_.plan();
      note_admitted(plan);
      for (RequestId id : plan.out_of_pages) finish(id, FinishReason::kLength);
      if (plan.batch.token_ids.empty()) continue;
      const auto forward = Clock::now();
      masks_.start(grammars_of(plan, active_));
      try {
        loaded_.model->forward(plan.batch, *loaded_.backend, *loaded_.store, logits());
      } catch (const std::exception& error) {
        masks_.finish();
        fail_step(error.what());
        continue;
      }
      const double seconds = since(forward);
      masks_.finish();
      scheduler_.commit(seconds);
      for (size_t row = 0; row < plan.row_requests.size(); ++row) take_row(plan, row);
      ++steps_;
      forward_seconds_ += seconds;
      step_seconds_ += since(begin);
#ifndef NDEBUG
      scheduler_.check();
#endif
    }
  }

  static double since(Clock::time_point begin) {
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  // Ends who waits or runs for longer than it may.
  void end_late_ones() {
    if (waiting_limit_ <= 0 && running_limit_ <= 0) return;
    if (Clock::now() - last_look_ < kTimeoutCheck) return;
    last_look_ = Clock::now();
    std::vector<std::pair<RequestId, ErrorId>> late;
    for (const auto& [id, request] : active_) {
      const bool started = request.started.has_value();
      const double limit = started ? running_limit_ : waiting_limit_;
      if (limit <= 0 || since(started ? *request.started : request.arrived) < limit) continue;
      late.emplace_back(id,
                        started ? errors::kRequestRunningTimeout : errors::kRequestWaitingTimeout);
    }
    for (const auto& [id, error] : late) fail(id, Error(error));
  }

  // At once and not when the state is published: who sees a request's first token finds its place
  // in the queue free.
  void one_less_new() {
    --unstarted_;
    --new_;
  }

  void note_admitted(const scheduler::Plan& plan) {
    for (const auto& [id, cached_tokens] : plan.admitted) {
      Active& request = active_.at(id);
      request.started = Clock::now();
      one_less_new();
      request.cached_tokens = cached_tokens;
      cached_tokens_ += cached_tokens;
      admitted_tokens_ += request.prompt_tokens;
    }
  }

  // Publishes the state, waits for work, takes what came in. False: the engine ends.
  bool take_commands() {
    std::vector<Command> commands;
    std::vector<Control*> controls;
    bool cancel_all = false, stopping = false;
    {
      std::unique_lock lock(mutex_);
      publish();
      wait_for_work(lock);
      commands.swap(commands_);
      controls = controls_;
      cancel_all = std::exchange(cancel_all_, false);
      asked_ = idle_ = false;
      stopping = stopping_;
    }
    for (Command& command : commands) {
      if (command.cancel) {
        if (active_.contains(command.id)) finish(command.id, FinishReason::kCancelled);
      } else {
        begin(std::move(command));
      }
    }
    // What was still queued ends with an event of its own too.
    if (cancel_all || stopping) cancel_everything();
    if (!controls.empty()) answer(controls, stopping);
    return !stopping;
  }

  // Requires: `lock` holds mutex_.
  void wait_for_work(std::unique_lock<std::mutex>& lock) {
    const auto something = [this] {
      return stopping_ || cancel_all_ || asked_ || !commands_.empty() ||
             !(paused_ || scheduler_.idle());
    };
    if (controls_.empty()) return wake_.wait(lock, something);
    auto deadline = controls_.front()->deadline;
    for (const Control* control : controls_) deadline = std::min(deadline, control->deadline);
    wake_.wait_until(lock, deadline, something);
  }

  // Requires: mutex_ not held, for attempts may end requests.
  void answer(const std::vector<Control*>& controls, bool stopping) {
    for (Control* control : controls) {
      const bool yes = !stopping && control->attempt();
      if (!yes && !stopping && Clock::now() < control->deadline) continue;
      const std::lock_guard lock(mutex_);
      publish();  // who asked sees what it led to
      control->answer = yes;
      std::erase(controls_, control);
      answered_.notify_all();
    }
  }

  // Requires: mutex_ held.
  void publish() {
    stats_.running = scheduler_.running();
    stats_.queued = scheduler_.queued();
    stats_.pages_used = scheduler_.cache().used();
    stats_.pages_cached = scheduler_.cache().cached();
    stats_.aborted_total = aborted_;
    stats_.prompt_tokens_total = prompt_tokens_;
    stats_.generation_tokens_total = generated_tokens_;
    stats_.cached_tokens_total = cached_tokens_;
    stats_.cache_hit_rate = admitted_tokens_ == 0 ? 0
                                                  : static_cast<double>(cached_tokens_) /
                                                        static_cast<double>(admitted_tokens_);
    stats_.steps_total = steps_;
    stats_.retracted_total = scheduler_.retracted();
    stats_.step_seconds = step_seconds_;
    stats_.forward_seconds = forward_seconds_;
    idle_ = scheduler_.idle();
    if (idle_) idle_changed_.notify_all();
  }

  void begin(Command&& command) {
    const auto length = static_cast<std::int64_t>(command.tokens.size());
    const std::int64_t from = command.logprobs.prompt_from;
    const std::optional<Error> error = std::move(command.error);
    active_.emplace(command.id, make_active(loaded_, &command, seed_));
    if (from >= 0) {
      Active& request = active_.at(command.id);
      request.prompt = command.tokens;
      const std::int32_t token = request.prompt[static_cast<size_t>(from)];
      request.prompt_logprobs.push_back(logprobs_.first(token));
    }
    prompt_tokens_ += length;
    ++unstarted_;
    scheduler_.add(
        {.id = command.id,
         .tokens = std::move(command.tokens),
         .cache_space = std::move(command.cache_space),
         .logits_from = from >= 0 ? static_cast<std::int32_t>(from) : scheduler::kLastOnly,
         .max_new_tokens = active_.at(command.id).max_tokens,
         .priority = command.priority});
    if (error) return fail(command.id, *error);
    if (!by_priority_ || max_queued_ <= 0) return;
    while (unstarted_ > max_queued_) {
      const RequestId last = scheduler_.last_new();
      fail(last, Error(last == command.id ? errors::kQueueFull : errors::kPreemptedInQueue));
    }
  }

  float* logits() const { return reinterpret_cast<float*>(logits_.data()); }

  // What a row tells: of a prompt's next token, which is known, or of the token to come.
  void take_row(const scheduler::Plan& plan, size_t row) {
    const auto found = active_.find(plan.row_requests[row]);
    if (found == active_.end()) return;  // a row before ended it
    Active& request = found->second;
    const auto next = static_cast<size_t>(next_position(plan, row));
    if (next >= static_cast<size_t>(request.prompt_tokens)) return advance(found->first, row);
    // A prompt that was retracted on its way brings some rows again.
    const auto from = static_cast<size_t>(request.logprobs.prompt_from);
    if (next != from + request.prompt_logprobs.size()) return;
    request.prompt_logprobs.push_back(
        logprobs_.read(row_of(row), request.prompt[next], request.logprobs));
  }

  std::span<const float> row_of(size_t row) const {
    const std::int64_t vocab = loaded_.info.vocab;
    // Rows of the embedding without a token are padding and never sampled.
    const auto sampled =
        static_cast<size_t>(std::min<std::int64_t>(vocab, loaded_.tokenizer->size()));
    return {logits() + row * static_cast<size_t>(vocab), sampled};
  }

  // The next token of a request from its row of logits.
  void advance(RequestId id, size_t row) {
    Active& request = active_.at(id);
    if (request.max_tokens == 0) return finish(id, FinishReason::kLength);
    const std::span<const float> logits_row = row_of(row);
    if (request.grammar && request.grammar->prepared_seconds() > kMaskSeconds) {
      return fail(
          id, Error(errors::kGrammarTooCostly, {{"kind", request.grammar->kind()},
                                                {"seconds", request.grammar->prepared_seconds()}}));
    }
    const std::optional<std::int32_t> token = draw(request, logits_row);
    if (!token) return end_undrawn(id, logits_row);
    TokenEvent event;
    if (request.logprobs.output) {
      event.logprobs.push_back(logprobs_.read(logits_row, *token, request.logprobs));
    }
    FinishReason reason = add(&request, *token, &event);
    // What the grammar leaves no choice of needs no sampling, and is computed in one step; but
    // where log-probabilities are told, for they need a row of logits each.
    if (reason == FinishReason::kNone && request.grammar && !request.logprobs.output) {
      for (const std::int32_t forced : request.grammar->forced()) {
        if (reason != FinishReason::kNone || event.token_ids.size() > kMostForced) break;
        reason = add(&request, forced, &event);
      }
    }
    if (reason == FinishReason::kError) return fail(id, request.dead_end());
    if (reason != FinishReason::kNone) return finish(id, reason, std::move(event));
    for (const std::int32_t each : event.token_ids) scheduler_.append(id, each);
    send(request, std::move(event));
  }

  FinishReason add(Active* request, std::int32_t token, TokenEvent* event) {
    ++generated_tokens_;
    return request->add(token, loaded_.config.eos_token_ids, event);
  }

  std::optional<std::int32_t> draw(const Active& request, std::span<const float> row) {
    if (request.thinking) {
      if (const auto forced = request.thinking->forced()) return forced;
    }
    if (!request.edits.none()) row = request.edits.apply(row, &edited_);
    if (request.grammar) row = request.grammar->apply(row, &edited_);
    const std::int64_t position = request.prompt_tokens + request.completion_tokens;
    return sampler_.sample(row, request.sampling, request.seed,
                           static_cast<std::uint64_t>(position));
  }

  // No token could be drawn: the model gave no numbers, or the grammar none of its tokens.
  void end_undrawn(RequestId id, std::span<const float> row) {
    const Active& request = active_.at(id);
    const bool numbers =
        std::isfinite(kernels::ops().maximum(row.data(), static_cast<std::int64_t>(row.size())));
    if (numbers && request.grammar) {
      if (request.grammar->complete()) return finish(id, FinishReason::kStop);
      return fail(id, request.dead_end());
    }
    fail(id, Error(errors::kNumericFault,
                   {{"step", request.completion_tokens + 1},
                    {"position", request.prompt_tokens + request.completion_tokens}}));
  }

  void send(Active& request, TokenEvent&& event) {
    event.reasoning_start = request.reasoning_start;
    event.prompt_tokens = request.prompt_tokens;
    event.completion_tokens = request.completion_tokens;
    event.cached_tokens = request.cached_tokens;
    event.prompt_logprobs = std::exchange(request.prompt_logprobs, {});
    request.sink(event);
  }

  // Ends a request: its last event, with the text held back so far, then its pages come back.
  void finish(RequestId id, FinishReason reason, TokenEvent event = {}) {
    auto node = active_.extract(id);
    Active& request = node.mapped();
    event.text += request.output.flush(request.detokenizer.flush());
    event.matched_stop = request.output.matched_stop();
    // The held text may end in a stop string that only the last bytes completed.
    event.finish_reason =
        reason == FinishReason::kLength && request.output.stopped() ? FinishReason::kStop : reason;
    if (const std::string& regex = request.output.too_costly();
        !regex.empty() && reason != FinishReason::kCancelled && reason != FinishReason::kError) {
      reason = event.finish_reason = FinishReason::kError;
      tell(Error(errors::kStopRegexTooCostly, {{"pattern", regex}}), &event);
    }
    if (reason == FinishReason::kCancelled || reason == FinishReason::kError) ++aborted_;
    if (!request.started) one_less_new();
    scheduler_.remove(id);
    send(request, std::move(event));
  }

  static void tell(const Error& error, TokenEvent* event) {
    event->error_id = error.entry().id;
    event->error_message = error.message();
    event->error_http_status = error.entry().http_status;
  }

  void fail(RequestId id, const Error& error) {
    TokenEvent event;
    tell(error, &event);
    finish(id, FinishReason::kError, std::move(event));
  }

  // The step failed as a whole: its requests end, the others and the engine go on.
  void fail_step(const std::string& what) {
    log().error("step failed: {}", what);
    for (RequestId id : scheduler_.planned()) {
      fail(id, Error(errors::kStepFailed, {{"what", what}}));
    }
  }

  void cancel_everything() {
    begin_unready();
    while (!active_.empty()) finish(active_.begin()->first, FinishReason::kCancelled);
  }

  LoadedModel loaded_;
  scheduler::Scheduler scheduler_;
  Sampler sampler_;
  LogprobReader logprobs_{*loaded_.tokenizer};
  MaskThread masks_;
  std::vector<float> edited_;  // [vocab] a row with a request's edits
  std::unordered_map<RequestId, Active> active_;
  // f32 [max_rows, vocab]; rows that no step has used take no memory.
  kernels::AlignedBuffer logits_;
  const bool allow_special_tokens_;  // in the texts of all requests
  const bool by_priority_;
  const std::int64_t max_queued_;               // 0: any number
  const double waiting_limit_, running_limit_;  // seconds; 0: none
  const std::uint64_t seed_;
  Clock::time_point last_look_{};  // for those that are late
  std::int64_t unstarted_ = 0;     // requests that were never let in
  // The same and those in the queue of commands; raised with mutex_ held.
  std::atomic<std::int64_t> new_ = 0;
  double step_seconds_ = 0, forward_seconds_ = 0;
  bool paused_ = false;
  std::int64_t aborted_ = 0, prompt_tokens_ = 0, generated_tokens_ = 0, steps_ = 0;
  std::int64_t cached_tokens_ = 0, admitted_tokens_ = 0;  // of prompts that were let in

  mutable std::mutex mutex_;  // guards what follows; never held during a forward pass
  std::condition_variable wake_, idle_changed_, answered_;
  std::vector<Command> commands_;
  Unready unready_;
  std::vector<Control*> controls_;  // their askers wait, so they live
  EngineStats stats_;
  RequestId last_id_ = 0;
  std::int64_t submitted_ = 0;
  bool stopping_ = false, draining_ = false, cancel_all_ = false, asked_ = false, idle_ = true;
  Grammars grammars_;  // goes first: its threads tell this one
  std::thread thread_;
};

}  // namespace
}  // namespace engine

std::unique_ptr<Engine> Engine::open(const EngineOptions& options) {
  return std::make_unique<engine::EngineImpl>(options);
}

}  // namespace quern
