#include "text/jinja/marked_text.h"

namespace quern::text::jinja {

void MarkedText::append(std::string_view text, bool data) {
  if (data) mark(bytes_.size(), bytes_.size() + text.size());
  bytes_ += text;
}

void MarkedText::append(const Str& text) {
  const std::size_t begin = bytes_.size();
  if (text.origin == Origin::kData) mark(begin, begin + text.text.size());
  for (const Bytes& span : text.data) mark(begin + span.begin, begin + span.end);
  bytes_ += text.text;
}

void MarkedText::mark(std::size_t begin, std::size_t end) {
  if (begin == end) return;
  if (!data_.empty() && data_.back().end == begin) {
    data_.back().end = end;
  } else {
    data_.push_back({begin, end});
  }
}

}  // namespace quern::text::jinja
