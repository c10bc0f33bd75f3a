#include "text/tool_calls/call_stream.h"

#include <algorithm>
#include <utility>

namespace quern::text {

using Kind = ToolCallEvent::Kind;

std::string_view without_blanks(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

int match_word(std::string_view text, const std::vector<std::string_view>& words) {
  int found = kNoWord;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == text) return static_cast<int>(i);
    if (words[i].starts_with(text)) found = kPart;
  }
  return found;
}

int WordScanner::step(char c, std::string* passed) {
  held_ += c;
  while (!held_.empty()) {
    const int match = match_word(held_, words_);
    if (match >= 0) {
      held_.clear();
      return match;
    }
    if (match == kPart) return kPart;
    // The longest rest that may still begin a word stays.
    *passed += held_.front();
    held_.erase(0, 1);
  }
  return kPart;
}

void CallStream::push(std::string_view piece, std::vector<ToolCallEvent>* events) {
  events_ = events;
  for (const char c : piece) step(c);
  events_ = nullptr;
}

void CallStream::finish(std::vector<ToolCallEvent>* events) {
  events_ = events;
  end();
  if (!only_blanks_since_call_) add_text(blanks_);
  blanks_.clear();
  events_ = nullptr;
}

void CallStream::add_text(std::string_view piece) {
  if (piece.empty()) return;
  if (events_->empty() || events_->back().kind != Kind::kText) {
    events_->emplace_back().kind = Kind::kText;
  }
  events_->back().text += piece;
}

void CallStream::text(std::string_view piece) {
  while (!piece.empty()) {
    const size_t word = std::min(piece.find_first_of(" \n\t\r"), piece.size());
    if (word > 0) {
      add_text(std::exchange(blanks_, {}));
      add_text(piece.substr(0, word));
      only_blanks_since_call_ = false;
      piece.remove_prefix(word);
      continue;
    }
    blanks_ += piece.front();
    piece.remove_prefix(1);
    if (blanks_.size() <= kMaxBlanks) continue;
    add_text(std::exchange(blanks_, {}));  // more than any format has
    only_blanks_since_call_ = false;
  }
}

void CallStream::begin_call(std::string name, std::string id) {
  blanks_.clear();
  open_ = true;
  name_ = name;
  ToolCallEvent& event = events_->emplace_back();
  event.kind = Kind::kBegin;
  event.index = calls_++;
  event.name = std::move(name);
  event.id = std::move(id);
}

void CallStream::arguments(std::string_view piece) {
  if (piece.empty()) return;
  if (events_->empty() || events_->back().kind != Kind::kArguments) {
    ToolCallEvent& event = events_->emplace_back();
    event.kind = Kind::kArguments;
    event.index = calls_ - 1;
  }
  events_->back().text += piece;
}

void CallStream::end_call(bool complete) {
  open_ = false;
  only_blanks_since_call_ = true;
  ToolCallEvent& event = events_->emplace_back();
  event.kind = Kind::kEnd;
  event.index = calls_ - 1;
  event.complete = complete;
}

}  // namespace quern::text
