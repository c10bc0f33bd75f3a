#include "engine/output_stream.h"

#include <algorithm>
#include <utility>

namespace quern::engine {
namespace {

bool begins_character(char byte) { return (byte & 0xC0) != 0x80; }

}  // namespace

OutputStream::OutputStream(const SamplingParams& sampling)
    : stop_(sampling.stop), keep_stop_(sampling.no_stop_trim) {
  for (const std::string& pattern : sampling.stop_regex) {
    regexes_.emplace_back(pattern);
    context_ = std::max(context_, regexes_.back().context());
  }
}

std::string OutputStream::push(std::string_view text) {
  if (stopped() || text.empty()) return {};
  text_ += text;
  return release(false);
}

std::string OutputStream::flush(std::string_view text) {
  if (stopped()) return {};
  text_ += text;
  return release(true);
}

std::string OutputStream::release(bool all) {
  std::size_t begin = std::string::npos, end = 0, partial = text_.size();
  for (const std::string& stop : stop_) {
    const std::size_t at = text_.find(stop, released_);
    if (at >= begin) continue;
    begin = at;
    end = at + stop.size();
    matched_ = stop;
  }
  for (const text::StopRegex& regex : regexes_) {
    const text::StopRegex::Found found = regex.find(text_, released_, all);
    if (found.kind == text::StopRegex::Kind::kGivenUp) {
      too_costly_ = regex.pattern();
    } else if (found.kind == text::StopRegex::Kind::kPartial) {
      partial = std::min(partial, found.begin);
    } else if (found.kind == text::StopRegex::Kind::kMatch && found.begin < begin) {
      begin = found.begin;
      end = found.end;
      matched_ = regex.pattern();
    }
  }
  const std::size_t until =
      stopped() ? (keep_stop_ ? end : begin) : (all ? text_.size() : unsure_from(partial));
  std::string out = text_.substr(released_, until - released_);
  released_ = until;
  forget();
  return out;
}

std::size_t OutputStream::unsure_from(std::size_t partial) const {
  const std::size_t size = text_.size();
  std::size_t from = partial;
  if (size - from > kMaxStopRegexMatch) {
    from = size - kMaxStopRegexMatch;
    while (from < size && !begins_character(text_[from])) ++from;
  }
  for (const std::string& stop : stop_) {
    const std::size_t longest = std::min(stop.size() - 1, size - released_);
    for (std::size_t length = longest; length > size - from; --length) {
      if (text_.compare(size - length, length, stop, 0, length) == 0) from = size - length;
    }
  }
  return from;
}

void OutputStream::forget() {
  if (released_ <= context_) return;
  std::size_t drop = released_ - context_;
  while (drop > 0 && !begins_character(text_[drop])) --drop;
  text_.erase(0, drop);
  released_ -= drop;
}

}  // namespace quern::engine
