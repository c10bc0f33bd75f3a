// The pull side of a request: a queue between the engine's thread and the reader's.

#include <condition_variable>
#include <deque>
#include <mutex>
#include <utility>

#include "quern/engine.h"

namespace quern {

struct TokenStream::State {
  Engine* engine = nullptr;
  RequestId id = 0;
  std::mutex mutex;
  std::condition_variable arrived;
  std::deque<TokenEvent> events;
  bool finished = false;  // the last event has arrived
  bool ended = false;     // and was read
};

TokenStream::TokenStream(std::shared_ptr<State> state) : state_(std::move(state)) {}
TokenStream::TokenStream(TokenStream&&) noexcept = default;

TokenStream& TokenStream::operator=(TokenStream&& other) noexcept {
  std::swap(state_, other.state_);
  return *this;
}

TokenStream::~TokenStream() {
  if (!state_) return;
  bool finished;
  {
    const std::lock_guard lock(state_->mutex);
    finished = state_->finished;
  }
  if (!finished) state_->engine->cancel(state_->id);
}

RequestId TokenStream::id() const { return state_->id; }

std::optional<TokenEvent> TokenStream::next() {
  std::unique_lock lock(state_->mutex);
  if (state_->ended) return std::nullopt;
  state_->arrived.wait(lock, [this] { return !state_->events.empty(); });
  TokenEvent event = std::move(state_->events.front());
  state_->events.pop_front();
  state_->ended = event.finish_reason != FinishReason::kNone;
  return event;
}

TokenStream Engine::submit(const Request& request) {
  // Shared with the sink, which may outlive the stream by one step.
  auto state = std::make_shared<TokenStream::State>();
  state->engine = this;
  state->id = submit(request, [state](const TokenEvent& event) {
    const std::lock_guard lock(state->mutex);
    state->finished = event.finish_reason != FinishReason::kNone;
    state->events.push_back(event);
    state->arrived.notify_one();
  });
  return TokenStream(std::move(state));
}

}  // namespace quern
