#include "engine/answer_formats.h"

#include <algorithm>
#include <string>

namespace quern::engine {
namespace {

constexpr size_t kEndTokens = 32;  // of a prompt, in which a mark and its blanks must stand

// The control tokens whose text stands in one of `marks`.
std::vector<std::int32_t> control_tokens(const text::Tokenizer& tokenizer,
                                         const std::vector<std::string_view>& marks) {
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    if (!tokenizer.is_control(id)) continue;
    const std::string_view text = tokenizer.text(id).inside;
    const bool stands = !text.empty() && std::any_of(marks.begin(), marks.end(), [&](auto mark) {
      return mark.find(text) != mark.npos;
    });
    if (stands) ids.push_back(id);
  }
  return ids;
}

}  // namespace

AnswerFormats::AnswerFormats(const EngineInfo& info, const text::Tokenizer& tokenizer)
    : tokenizer_(tokenizer), reasoning_(info.reasoning_parser) {
  std::vector<std::string_view> marks;
  if (const auto parser = make_reasoning_parser(reasoning_)) marks = parser->marks();
  reasoning_marks_ = control_tokens(tokenizer, marks);
  if (const auto parser = make_tool_call_parser(info.tool_call_parser, "")) {
    const auto more = parser->marks();
    marks.insert(marks.end(), more.begin(), more.end());
  }
  all_marks_ = control_tokens(tokenizer, marks);
  const std::string_view end = reasoning_end_mark(reasoning_);
  if (end.empty()) return;
  closing_ = tokenizer.encode(end, true);
  const auto opening = tokenizer.encode(reasoning_begin_mark(reasoning_), true);
  if (opening.size() == 1) opening_ = opening[0];
}

ReasoningStart AnswerFormats::start(std::span<const std::int32_t> prompt) const {
  if (reasoning_.empty()) return ReasoningStart::kUnstated;
  text::DecodeOptions options;
  options.skip_special_tokens = false;
  options.begins = false;
  const auto end = prompt.last(std::min(prompt.size(), kEndTokens));
  return reasoning_start(reasoning_, text::decode(tokenizer_, end, options));
}

ThinkingBudget::ThinkingBudget(const AnswerFormats& formats, ReasoningStart start,
                               std::int64_t tokens)
    : closing_(formats.closing()),
      parser_(make_reasoning_parser(formats.reasoning(), start)),
      left_(tokens) {
  closes_ = left_ == 0 && parser_->in_reasoning();
}

std::optional<std::int32_t> ThinkingBudget::forced() const {
  if (!closes_ || next_ >= closing_.size()) return std::nullopt;
  return closing_[next_];
}

void ThinkingBudget::take(std::string_view text) {
  if (closes_) {
    ++next_;
    return;
  }
  const bool reasoned = parser_->in_reasoning();
  std::string reasoning, content;
  parser_->push(text, &reasoning, &content);
  if (!parser_->in_reasoning()) return;
  if (reasoned) --left_;
  closes_ = left_ <= 0;
}

}  // namespace quern::engine
