#include "engine/output_stream.h"

#include <algorithm>
#include <utility>

namespace quern::engine {

OutputStream::OutputStream(std::vector<std::string> stop) : stop_(std::move(stop)) {}

std::string OutputStream::push(std::string_view text) {
  if (stopped()) return {};
  held_ += text;
  return release(false);
}

std::string OutputStream::flush(std::string_view text) {
  if (stopped()) return {};
  held_ += text;
  return release(true);
}

std::string OutputStream::release(bool all) {
  size_t earliest = std::string::npos;
  for (const std::string& stop : stop_) {
    const size_t at = held_.find(stop);
    if (at < earliest) {
      earliest = at;
      matched_ = stop;
    }
  }
  if (earliest != std::string::npos) {
    held_.resize(earliest);
    return std::exchange(held_, {});
  }
  // The longest end of the text that begins a stop string stays back.
  size_t keep = 0;
  for (const std::string& stop : stop_) {
    if (all) break;
    for (size_t length = std::min(stop.size() - 1, held_.size()); length > keep; --length) {
      if (held_.compare(held_.size() - length, length, stop, 0, length) == 0) keep = length;
    }
  }
  std::string out = held_.substr(0, held_.size() - keep);
  held_.erase(0, out.size());
  return out;
}

}  // namespace quern::engine
