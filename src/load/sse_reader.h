// Server-sent events from a stream of bytes that may be cut anywhere. Used by the load generator
// for what servers answer; holds no more than one event.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace quern::load {

inline constexpr std::size_t kMaxEventBytes = 16 << 20;

class SseReader {
 public:
  // Takes the next bytes and calls `on_data` with the data of every event that is complete now;
  // comments and other fields are passed over. False once an event is larger than kMaxEventBytes:
  // the stream is then of no use any more.
  bool push(std::string_view bytes, const std::function<void(std::string_view)>& on_data);

  // Whether an event has begun and not ended.
  bool inside_event() const { return has_data_ || !line_.empty(); }

 private:
  void end_line(const std::function<void(std::string_view)>& on_data);

  std::string line_;  // the line that has not ended yet
  std::string data_;  // of the event so far
  bool has_data_ = false;
  bool after_return_ = false;  // the last byte was \r, so a \n belongs to it
};

}  // namespace quern::load
