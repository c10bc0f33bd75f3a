#include "text/utf8_decoder.h"

#include "text/utf8.h"

namespace quern::text {

void Utf8Decoder::replace(std::size_t length, std::string& out) const {
  const std::size_t count = replace_ == Replace::kBytes ? length : 1;
  for (std::size_t i = 0; i < count; ++i) out += kReplacement;
}

std::string Utf8Decoder::push(std::string_view bytes) {
  pending_ += bytes;
  std::string_view rest = pending_;
  std::string out;
  out.reserve(rest.size());
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8Kind::kCut) break;
    if (step.kind == Utf8Kind::kValid) {
      out += rest.substr(0, step.length);
    } else {
      replace(step.length, out);
    }
    rest.remove_prefix(step.length);
  }
  pending_ = std::string(rest);
  return out;
}

std::string Utf8Decoder::flush() {
  std::string out;
  if (!pending_.empty()) replace(pending_.size(), out);
  pending_.clear();
  return out;
}

}  // namespace quern::text
