// The engine behind include/quern/engine.h: one thread that plans, runs the model, samples and
// commits, step after step. Requests and cancels come in by one queue, events go out by the sinks.

#include "quern/engine.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <utility>

#include "base/error.h"
#include "base/errors/engine.h"
#include "base/log.h"
#include "engine/output_stream.h"
#include "engine/sampler.h"
#include "engine/startup.h"
#include "kernels/aligned_buffer.h"
#include "scheduler/scheduler.h"
#include "text/detokenizer.h"

namespace quern {
namespace engine {
namespace {

// A request as the engine's thread knows it.
struct Active {
  SamplingParams sampling;
  EventSink sink;
  text::Detokenizer detokenizer;
  OutputStream output;
  std::uint64_t seed = 0;
  std::int64_t prompt_tokens = 0;
  std::int64_t completion_tokens = 0;
  std::int64_t max_tokens = 0;
};

// What another thread asks of the engine's.
struct Command {
  RequestId id = 0;
  bool cancel = false;
  std::vector<std::int32_t> tokens;
  SamplingParams sampling;
  EventSink sink;
};

std::uint64_t clock_seed() {
  return static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
}

class EngineImpl final : public Engine {
 public:
  explicit EngineImpl(const EngineOptions& options)
      : loaded_(load_model(options)),
        scheduler_({.max_running = loaded_.info.max_running_requests,
                    .max_prefill_tokens = loaded_.info.chunked_prefill_size,
                    .page_size = static_cast<std::int32_t>(loaded_.info.page_size)},
                   *loaded_.pages),
        allow_special_tokens_(options.allow_special_tokens_in_prompt),
        seed_(options.random_seed != 0 ? options.random_seed : clock_seed()) {
    logits_ = kernels::AlignedBuffer(loaded_.info.max_running_requests * loaded_.info.vocab *
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
    command.sampling = request.sampling;
    command.sink = std::move(sink);
    const std::lock_guard lock(mutex_);
    if (draining_ || stopping_) throw Error(errors::kEngineStopping);
    const RequestId id = command.id = ++last_id_;
    commands_.push_back(std::move(command));
    ++submitted_;
    wake_.notify_all();
    return id;
  }

  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    Command command;
    command.id = id;
    command.cancel = true;
    commands_.push_back(std::move(command));
    wake_.notify_all();
  }

  void drain(std::chrono::milliseconds limit) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    wake_.notify_all();
    const auto done = [this] { return idle_ && commands_.empty(); };
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
    stats.requests_total = submitted_;
    return stats;
  }

  std::vector<std::int32_t> tokenize(const Request& request) const override {
    const int forms =
        (request.prompt ? 1 : 0) + (request.token_ids ? 1 : 0) + (request.messages ? 1 : 0);
    if (forms != 1) throw Error(errors::kRequestFormInvalid, {{"count", forms}});
    if (request.token_ids) {
      check_ids(*request.token_ids);
      return *request.token_ids;
    }
    const bool trusted = request.parse_special_tokens || allow_special_tokens_;
    std::vector<PromptPiece> pieces;
    if (request.prompt) {
      pieces.push_back({*request.prompt, trusted});
    } else {
      pieces = loaded_.chat_template->render(*request.messages, request.chat);
      for (PromptPiece& piece : pieces) piece.trusted = piece.trusted || trusted;
    }
    return loaded_.tokenizer->encode(pieces, request.add_special_tokens);
  }

  std::string detokenize(const std::vector<std::int32_t>& ids,
                         bool skip_special_tokens) const override {
    check_ids(ids);
    text::DecodeOptions options;
    options.skip_special_tokens = skip_special_tokens;
    return text::decode(*loaded_.tokenizer, ids, options);
  }

 private:
  void check_ids(const std::vector<std::int32_t>& ids) const {
    for (size_t i = 0; i < ids.size(); ++i) {
      if (ids[i] >= 0 && ids[i] < loaded_.info.vocab) continue;
      throw Error(errors::kTokenIdOutOfRange,
                  {{"id", ids[i]}, {"position", i}, {"last", loaded_.info.vocab - 1}});
    }
  }

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

  // The step loop: plan, forward, sample, commit.
  void run() {
    while (take_commands()) {
      const scheduler::Plan& plan = scheduler_.plan();
      for (RequestId id : plan.out_of_pages) finish(id, FinishReason::kLength);
      if (plan.batch.token_ids.empty()) continue;
      try {
        loaded_.model->forward(plan.batch, *loaded_.backend, *loaded_.store, logits());
      } catch (const std::exception& error) {
        fail_step(error.what());
        continue;
      }
      scheduler_.commit();
      for (size_t row = 0; row < plan.row_requests.size(); ++row)
        advance(plan.row_requests[row], row);
      ++steps_;
    }
  }

  // Publishes the state, waits for work, takes what came in. False: the engine ends.
  bool take_commands() {
    std::vector<Command> commands;
    bool cancel_all = false, stopping = false;
    {
      std::unique_lock lock(mutex_);
      publish();
      wake_.wait(lock, [this] {
        return stopping_ || cancel_all_ || !commands_.empty() || !scheduler_.idle();
      });
      commands.swap(commands_);
      cancel_all = std::exchange(cancel_all_, false);
      idle_ = false;
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
    return !stopping;
  }

  // Requires: mutex_ held.
  void publish() {
    stats_.running = scheduler_.running();
    stats_.queued = scheduler_.queued();
    stats_.pages_used = loaded_.pages->used();
    stats_.aborted_total = aborted_;
    stats_.prompt_tokens_total = prompt_tokens_;
    stats_.generation_tokens_total = generated_tokens_;
    stats_.steps_total = steps_;
    idle_ = scheduler_.idle();
    if (idle_) idle_changed_.notify_all();
  }

  void begin(Command&& command) {
    const auto length = static_cast<std::int64_t>(command.tokens.size());
    const std::int64_t room = loaded_.info.context_length - length;
    const std::int64_t asked = command.sampling.max_tokens;
    const std::uint64_t seed = command.sampling.seed.value_or(seed_ + command.id);
    OutputStream output(command.sampling.stop);
    const auto writes = [&](std::int32_t token) {
      return !loaded_.tokenizer->bytes(token).empty();
    };
    text::DecodeOptions decoding;
    decoding.begins = std::none_of(command.tokens.rbegin(), command.tokens.rend(), writes);
    active_.emplace(command.id,
                    Active{.sampling = std::move(command.sampling),
                           .sink = std::move(command.sink),
                           .detokenizer = text::Detokenizer(*loaded_.tokenizer, decoding),
                           .output = std::move(output),
                           .seed = seed,
                           .prompt_tokens = length,
                           .max_tokens = asked < 0 ? room : std::min(asked, room)});
    prompt_tokens_ += length;
    scheduler_.add(command.id, std::move(command.tokens));
  }

  float* logits() const { return reinterpret_cast<float*>(logits_.data()); }

  // The next token of a request from its row of logits.
  void advance(RequestId id, size_t row) {
    Active& request = active_.at(id);
    const std::int64_t vocab = loaded_.info.vocab;
    // Rows of the embedding without a token are padding and never sampled.
    const auto sampled =
        static_cast<size_t>(std::min<std::int64_t>(vocab, loaded_.tokenizer->size()));
    const std::span<const float> logits_row(logits() + row * static_cast<size_t>(vocab), sampled);
    const std::int64_t position = request.prompt_tokens + request.completion_tokens;
    const auto token = sampler_.sample(logits_row, request.sampling, request.seed,
                                       static_cast<std::uint64_t>(position));
    if (!token) {
      fail(id, Error(errors::kNumericFault,
                     {{"step", request.completion_tokens + 1}, {"position", position}}));
      return;
    }
    ++request.completion_tokens;
    ++generated_tokens_;
    const bool ends = ends_sequence(request.sampling, *token);
    TokenEvent event;
    event.token_ids = {*token};
    if (!ends) event.text = request.output.push(request.detokenizer.push(*token));
    if (ends || request.output.stopped()) {
      finish(id, FinishReason::kStop, std::move(event));
    } else if (request.completion_tokens >= request.max_tokens) {
      finish(id, FinishReason::kLength, std::move(event));
    } else {
      scheduler_.append(id, *token);
      send(request, std::move(event));
    }
  }

  bool ends_sequence(const SamplingParams& sampling, std::int32_t token) const {
    const auto holds = [&](const std::vector<std::int32_t>& ids) {
      return std::find(ids.begin(), ids.end(), token) != ids.end();
    };
    return holds(sampling.stop_token_ids) ||
           (!sampling.ignore_eos && holds(loaded_.config.eos_token_ids));
  }

  void send(Active& request, TokenEvent&& event) {
    event.prompt_tokens = request.prompt_tokens;
    event.completion_tokens = request.completion_tokens;
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
    if (reason == FinishReason::kCancelled || reason == FinishReason::kError) ++aborted_;
    scheduler_.remove(id);
    send(request, std::move(event));
  }

  void fail(RequestId id, const Error& error) {
    TokenEvent event;
    event.error_id = error.entry().id;
    event.error_message = error.message();
    event.error_http_status = error.entry().http_status;
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
    while (!active_.empty()) finish(active_.begin()->first, FinishReason::kCancelled);
  }

  LoadedModel loaded_;
  scheduler::Scheduler scheduler_;
  Sampler sampler_;
  std::unordered_map<RequestId, Active> active_;
  // f32 [max_running_requests, vocab]; rows that no step has used take no memory.
  kernels::AlignedBuffer logits_;
  const bool allow_special_tokens_;  // in the texts of all requests
  const std::uint64_t seed_;
  std::int64_t aborted_ = 0, prompt_tokens_ = 0, generated_tokens_ = 0, steps_ = 0;

  mutable std::mutex mutex_;  // guards what follows; never held during a forward pass
  std::condition_variable wake_, idle_changed_;
  std::vector<Command> commands_;
  EngineStats stats_;
  RequestId last_id_ = 0;
  std::int64_t submitted_ = 0;
  bool stopping_ = false, draining_ = false, cancel_all_ = false, idle_ = true;
  std::thread thread_;
};

}  // namespace
}  // namespace engine

std::unique_ptr<Engine> Engine::open(const EngineOptions& options) {
  return std::make_unique<engine::EngineImpl>(options);
}

}  // namespace quern
