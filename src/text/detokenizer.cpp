#include "text/detokenizer.h"

#include "text/utf8.h"

namespace quern::text {

std::string Detokenizer::push(std::string_view bytes) {
  pending_ += bytes;
  std::string_view rest = pending_;
  std::string out;
  out.reserve(rest.size());
  while (!rest.empty()) {
    const Utf8Step step = utf8_step(rest);
    if (step.kind == Utf8Kind::kCut) break;
    out += step.kind == Utf8Kind::kValid ? rest.substr(0, step.length) : kReplacement;
    rest.remove_prefix(step.length);
  }
  pending_ = std::string(rest);
  return out;
}

std::string Detokenizer::flush() {
  const bool held = !pending_.empty();
  pending_.clear();
  return std::string(held ? kReplacement : std::string_view());
}

}  // namespace quern::text
