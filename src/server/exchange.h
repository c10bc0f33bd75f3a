// One generating request between the engine's thread, which pushes events, and its connection on
// the I/O thread, which waits for them. Owned jointly by the connection and the engine's event
// sinks, because either may end first. It bounds what a slow client can pile up.
#pragma once

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/steady_timer.hpp>
#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "quern/engine.h"

namespace quern::server {

class Exchange : public std::enable_shared_from_this<Exchange> {
 public:
  // `io` runs on one thread, the I/O thread. What is unread beyond `max_unread_bytes` cancels the
  // request; its last event is then kClientTooSlow.
  Exchange(boost::asio::any_io_executor io, size_t max_unread_bytes);

  // Queues every request, choice by choice. Worker thread. Throws: Error, after which nothing of it
  // runs.
  void submit(Engine& engine, std::vector<Request> requests);

  // Cancels all that was or will be submitted and wakes the connection. Any thread but the
  // engine's.
  void abort();
  bool aborted() const { return aborted_; }

  // Cancels what was submitted or is being submitted; its events still come, the last ones as
  // kCancelled. Any thread but the engine's.
  void end();
  bool ended() const { return ended_; }

  // Returns when there are events, or at once after abort(). I/O thread.
  boost::asio::awaitable<void> wait();
  // The events since the last call, each with its choice. I/O thread.
  std::vector<std::pair<size_t, TokenEvent>> take();

 private:
  void push(size_t choice, const TokenEvent& event);
  void wake();
  void cancel_submitted();

  boost::asio::any_io_executor io_;
  boost::asio::steady_timer signal_;  // never expires; cancelling it wakes the connection
  size_t max_unread_bytes_;
  std::atomic<bool> aborted_ = false, ended_ = false;

  std::mutex mutex_;  // guards what follows
  Engine* engine_ = nullptr;
  std::vector<RequestId> ids_;
  std::vector<std::pair<size_t, TokenEvent>> events_;
  size_t unread_bytes_ = 0;
  bool too_slow_ = false;  // nothing more is kept but the last events
};

}  // namespace quern::server
