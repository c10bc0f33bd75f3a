// A test double of Engine: "generates" by repeating the prompt, one character a token, on a thread
// of its own. Prompts that begin with '!' make it misbehave. Used by the tests of this folder.
#pragma once

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/engine.h"
#include "base/errors/server.h"
#include "quern/engine.h"

namespace quern::server {

class FakeEngine : public Engine {
 public:
  explicit FakeEngine(std::chrono::microseconds step = std::chrono::microseconds(200),
                      size_t max_running = 100'000, const EngineInfo& info = usual_info())
      : step_(step), max_running_(max_running), info_(info) {
    thread_ = std::thread([this] { run(); });
  }

  static EngineInfo usual_info() {
    EngineInfo info;
    info.served_model_name = "m";
    info.model_path = "/models/<m>.gguf";
    info.attention_backend = "torch_native";
    info.context_length = 1000;
    info.vocab = 256;
    info.has_chat_template = true;
    info.default_sampling.top_k = 40;
    return info;
  }

  ~FakeEngine() override {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  RequestId submit(const Request& request, EventSink sink) override {
    if (draining_) throw Error(errors::kServerDraining);
    Running running{text_of(request), request.sampling, request.logprobs, std::move(sink), false,
                    TokenEvent()};
    if (running.text.starts_with("!throw")) {
      throw Error(errors::kFieldOutOfRange, {{"expected", "shorter"}, {"actual", "\xFF long"}});
    }
    if (running.text.starts_with("!break")) running.text.at(running.text.size());  // no Error
    if (running.text.empty()) running.text = "empty";
    running.event.prompt_tokens = static_cast<std::int64_t>(running.text.size());
    running.event.cached_tokens = running.event.prompt_tokens / 2;
    const std::lock_guard lock(mutex_);
    ++stats_.requests_total;
    queue_.emplace_back(++last_id_, std::move(running));
    last_request_ = request;
    changed_.notify_all();
    return last_id_;
  }

  void cancel(RequestId id) override {
    const std::lock_guard lock(mutex_);
    for (auto& [key, running] : queue_) {
      if (key == id) running.cancelled = true;
    }
    changed_.notify_all();
  }

  void cancel_all() override {
    const std::lock_guard lock(mutex_);
    for (auto& [key, running] : queue_) running.cancelled = true;
    changed_.notify_all();
  }

  void pause(PauseMode mode) override {
    if (mode == PauseMode::kAbort) cancel_all();
    const std::lock_guard lock(mutex_);
    paused_ = true;
  }

  void resume() override {
    const std::lock_guard lock(mutex_);
    paused_ = false;
    changed_.notify_all();
  }

  bool flush_cache(std::chrono::milliseconds limit) override {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, limit, [this] { return queue_.empty(); });
  }

  void drain(std::chrono::milliseconds limit) override {
    std::unique_lock lock(mutex_);
    draining_ = true;
    if (changed_.wait_for(lock, limit, [this] { return queue_.empty(); })) return;
    for (auto& [key, running] : queue_) running.cancelled = true;
    changed_.wait(lock, [this] { return queue_.empty(); });
  }

  const EngineInfo& info() const override { return info_; }

  EngineStats stats() const override {
    const std::lock_guard lock(mutex_);
    EngineStats stats = stats_;
    stats.running = static_cast<std::int64_t>(std::min(queue_.size(), max_running_));
    stats.queued = static_cast<std::int64_t>(queue_.size()) - stats.running;
    return stats;
  }

  std::vector<std::int32_t> tokenize(const Request& request) const override {
    const std::string text = text_of(request);
    std::vector<std::int32_t> ids(text.begin(), text.end());
    // The ids 1 and 2 tell how it was asked.
    if (!request.add_special_tokens) ids.push_back(1);
    if (request.parse_special_tokens) ids.push_back(2);
    return ids;
  }
  // Ids below 32 are its special tokens.
  std::string detokenize(const std::vector<std::int32_t>& ids, bool skip_special) const override {
    std::string text;
    for (const std::int32_t id : ids) {
      if (id >= 256) throw Error(errors::kTokenIdOutOfRange, {{"id", id}});
      if (id >= 32 || !skip_special) text += static_cast<char>(id);
    }
    return valid_utf8(text);
  }

  Request last_request() const {
    const std::lock_guard lock(mutex_);
    return last_request_;
  }

 private:
  struct Running {
    std::string text;
    SamplingParams sampling;
    LogprobOptions logprobs;
    EventSink sink;
    bool cancelled;
    TokenEvent event;
  };

  static std::string text_of(const Request& request) {
    if (request.prompt) return *request.prompt;
    if (request.token_ids) return std::string(request.token_ids->begin(), request.token_ids->end());
    std::string text;
    for (const ChatMessage& message : request.messages.value_or(std::vector<ChatMessage>())) {
      text += message.content;
    }
    return text;
  }

  // A made-up position: capitals are likely; others are told in the order of the alphabet.
  static TokenLogprobs logprobs_at(char token, const LogprobOptions& options) {
    const auto entry = [](char c, float logprob) {
      return LogprobToken{static_cast<unsigned char>(c), logprob, std::string(1, c)};
    };
    TokenLogprobs made;
    made.token = entry(token, token >= 'A' && token <= 'Z' ? -0.25f : -0.5f);
    for (int i = 0; i < options.top; ++i) {
      made.top.push_back(entry(static_cast<char>('a' + i), -0.25f * static_cast<float>(i + 1)));
    }
    for (const std::int32_t id : options.token_ids) {
      made.wanted.push_back(entry(static_cast<char>(id), -3.0f));
    }
    return made;
  }

  static void note_prompt(Running* running) {
    running->event.prompt_logprobs.clear();
    const std::int64_t from = running->logprobs.prompt_from;
    if (from < 0 || running->event.completion_tokens > 0) return;
    for (size_t i = static_cast<size_t>(from); i < running->text.size(); ++i) {
      running->event.prompt_logprobs.push_back(logprobs_at(running->text[i], running->logprobs));
      running->event.prompt_logprobs.back().predicted = i > static_cast<size_t>(from);
    }
  }

  // True when the request has ended.
  static bool step(Running* running) {
    TokenEvent& event = running->event;
    event.text.clear();
    event.token_ids.clear();
    event.logprobs.clear();
    note_prompt(running);
    if (running->cancelled) {
      event.finish_reason = FinishReason::kCancelled;
    } else if (running->text.starts_with("!fail") &&
               event.completion_tokens == running->text[5] - '0') {
      event.finish_reason = FinishReason::kError;
      event.error_id = error_entry(errors::kInternalError).id;
      event.error_message = "numeric fault";
      event.error_http_status = 500;
    } else if (running->sampling.max_tokens == 0) {
      event.finish_reason = FinishReason::kLength;
    } else {
      const size_t at = static_cast<size_t>(event.completion_tokens++);
      const size_t seed = static_cast<size_t>(running->sampling.seed.value_or(0));
      event.text = running->text[(at + seed) % running->text.size()];
      event.token_ids = {static_cast<std::int32_t>(event.text[0])};
      if (running->logprobs.output) {
        event.logprobs.push_back(logprobs_at(event.text[0], running->logprobs));
      }
      if (event.completion_tokens == running->sampling.max_tokens) {
        event.finish_reason = FinishReason::kLength;
      }
      for (const std::string& stop : running->sampling.stop) {
        if (event.text != stop) continue;
        event.finish_reason = FinishReason::kStop;
        event.matched_stop = stop;
        event.text.clear();
      }
    }
    running->sink(event);
    return event.finish_reason != FinishReason::kNone;
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (stop_) return;
      size_t place = 0;
      for (auto it = queue_.begin(); it != queue_.end();) {
        const bool runs = (!paused_ && place++ < max_running_) || it->second.cancelled;
        const bool ends = runs && step(&it->second);
        if (ends && it->second.cancelled) ++stats_.aborted_total;
        it = ends ? queue_.erase(it) : std::next(it);
      }
      changed_.notify_all();
      lock.unlock();
      std::this_thread::sleep_for(step_);
      lock.lock();
    }
  }

  std::chrono::microseconds step_;
  size_t max_running_;
  EngineInfo info_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<RequestId, Running>> queue_;
  EngineStats stats_;
  Request last_request_;
  RequestId last_id_ = 0;
  bool draining_ = false, stop_ = false, paused_ = false;
  std::thread thread_;
};

}  // namespace quern::server
