#include "server/exchange.h"

#include <boost/asio/post.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "base/error.h"
#include "base/errors/server.h"

namespace quern::server {

namespace asio = boost::asio;

namespace {

// About what the log-probabilities of an event's tokens take. A prompt's come once and are bounded
// by the engine.
size_t logprob_bytes(const TokenEvent& event) {
  size_t entries = 0;
  for (const TokenLogprobs& at : event.logprobs) entries += 1 + at.top.size() + at.wanted.size();
  return entries * sizeof(LogprobToken);
}

// In place of the last event of a request part of whose text was not kept.
TokenEvent too_slow(const TokenEvent& last, size_t limit) {
  const Error error(errors::kClientTooSlow, {{"limit", limit}});
  TokenEvent event;
  event.finish_reason = FinishReason::kError;
  event.error_id = error.entry().id;
  event.error_message = error.message();
  event.error_http_status = error.entry().http_status;
  event.prompt_tokens = last.prompt_tokens;
  event.completion_tokens = last.completion_tokens;
  event.cached_tokens = last.cached_tokens;
  return event;
}

}  // namespace

Exchange::Exchange(asio::any_io_executor io, size_t max_unread_bytes)
    : io_(io),
      signal_(io, asio::steady_timer::time_point::max()),
      max_unread_bytes_(max_unread_bytes) {}

void Exchange::submit(Engine& engine, std::vector<Request> requests) {
  {
    const std::lock_guard lock(mutex_);
    engine_ = &engine;
  }
  for (size_t choice = 0; choice < requests.size() && !aborted_; ++choice) {
    try {
      const RequestId id = engine.submit(
          requests[choice], [self = shared_from_this(), choice](const TokenEvent& event) {
            self->push(choice, event);
          });
      const std::lock_guard lock(mutex_);
      ids_.push_back(id);
    } catch (...) {
      abort();
      throw;
    }
  }
  // An abort that came while a request was being queued did not know its id.
  if (aborted_) abort();
  if (ended_) cancel_submitted();
}

void Exchange::abort() {
  aborted_ = true;
  cancel_submitted();
  wake();
}

void Exchange::end() {
  ended_ = true;
  cancel_submitted();
}

void Exchange::cancel_submitted() {
  std::vector<RequestId> ids;
  Engine* engine = nullptr;
  {
    const std::lock_guard lock(mutex_);
    ids.swap(ids_);
    engine = engine_;
  }
  for (const RequestId id : ids) engine->cancel(id);
}

asio::awaitable<void> Exchange::wait() {
  while (!aborted_) {
    {
      const std::lock_guard lock(mutex_);
      if (!events_.empty()) co_return;
    }
    boost::system::error_code ignored;
    co_await signal_.async_wait(asio::redirect_error(asio::use_awaitable, ignored));
  }
}

std::vector<std::pair<size_t, TokenEvent>> Exchange::take() {
  const std::lock_guard lock(mutex_);
  unread_bytes_ = 0;
  return std::exchange(events_, {});
}

void Exchange::push(size_t choice, const TokenEvent& event) {
  bool first = false, overflow = false;
  {
    const std::lock_guard lock(mutex_);
    const bool last = event.finish_reason != FinishReason::kNone;
    if (aborted_ || (too_slow_ && !last)) return;
    first = events_.empty();
    events_.emplace_back(choice, too_slow_ ? too_slow(event, max_unread_bytes_) : event);
    unread_bytes_ +=
        sizeof(event) + event.text.size() + event.token_ids.size() * 4 + logprob_bytes(event);
    overflow = !too_slow_ && !last && unread_bytes_ > max_unread_bytes_;
    too_slow_ = too_slow_ || overflow;
  }
  // Not from here: the engine's thread must not wait for the locks of cancel().
  if (overflow) asio::post(io_, [self = shared_from_this()] { self->cancel_submitted(); });
  if (first) wake();
}

void Exchange::wake() {
  asio::post(io_, [self = shared_from_this()] { self->signal_.cancel(); });
}

}  // namespace quern::server
