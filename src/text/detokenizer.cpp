#include "text/detokenizer.h"

#include <algorithm>
#include <string_view>
#include <utility>

namespace quern::text {

Detokenizer::Detokenizer(const Tokenizer& tokenizer, DecodeOptions options)
    : tokenizer_(&tokenizer),
      options_(options),
      rules_(tokenizer.decode_rules()),
      decoder_(rules_.replace),
      first_(options.begins),
      strip_begin_(options.begins ? rules_.strip_begin : 0) {}

std::string Detokenizer::push(std::int32_t id) {
  const bool control = tokenizer_->is_control(id);
  if (options_.skip_special_tokens && control &&
      !std::binary_search(options_.shown.begin(), options_.shown.end(), id)) {
    return {};
  }
  const TokenText text = tokenizer_->text(id);
  if (!text.exists) return {};
  std::string_view bytes = first_ ? text.first : text.inside;
  if (control && after_control_ && !options_.spaces_between_special_tokens) {
    bytes.remove_prefix(std::min(bytes.find_first_not_of(' '), bytes.size()));
  }
  after_control_ = control;
  if (!rules_.begins_until_text || !bytes.empty()) first_ = false;
  return strip(decoder_.push(bytes));
}

std::string Detokenizer::flush() {
  std::string out = strip(decoder_.flush());
  held_.clear();
  return out;
}

// Takes off the beginning of the text, and holds back what would be taken off its end.
std::string Detokenizer::strip(std::string text) {
  if (rules_.strip.empty() || text.empty()) return text;
  const std::string_view unit = rules_.strip;
  std::size_t begin = 0;
  while (strip_begin_ > 0 && std::string_view(text).substr(begin).starts_with(unit)) {
    begin += unit.size();
    --strip_begin_;
  }
  if (begin < text.size()) strip_begin_ = 0;
  text.erase(0, begin);
  if (rules_.strip_end == 0) return text;
  text.insert(0, std::exchange(held_, {}));
  std::size_t end = text.size();
  for (std::int32_t n = 0; n < rules_.strip_end; ++n) {
    if (!std::string_view(text).substr(0, end).ends_with(unit)) break;
    end -= unit.size();
  }
  held_ = text.substr(end);
  text.resize(end);
  return text;
}

std::string decode(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                   DecodeOptions options) {
  Detokenizer detokenizer(tokenizer, options);
  std::string text;
  for (const std::int32_t id : ids) text += detokenizer.push(id);
  text += detokenizer.flush();
  return text;
}

}  // namespace quern::text
