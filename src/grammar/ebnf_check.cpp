// A look at a client's EBNF before the compiler gets it.

#include <fmt/format.h>

#include <algorithm>

#include "grammar/grammar.h"
#include "text/utf8.h"

namespace quern::grammar {
namespace {

constexpr std::string_view kMacros[] = {"TagDispatch", "TokenTagDispatch", "Token", "ExcludeToken",
                                        "Regex",       "Substring"};

bool is_name(char c) {
  return c == '_' || c == '-' || c == '.' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
         (c >= 'A' && c <= 'Z');
}

class EbnfScan {
 public:
  explicit EbnfScan(std::string_view text) : text_(text) {}

  void run() {
    while (at_ < text_.size()) step();
    if (depth_ != 0) refuse("a group does not end");
  }

 private:
  [[noreturn]] void refuse(std::string_view why) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<long>(at_), '\n');
    refuse_grammar(fmt::format("line {}: {}", line, why));
  }

  void step() {
    const char c = text_[at_];
    if (c == '#') {
      at_ = std::min(text_.find('\n', at_), text_.size());
    } else if (c == '"') {
      skip_until('"', "a text does not end");
    } else if (c == '[') {
      skip_until(']', "a character class does not end");
    } else if (c == '(') {
      if (++depth_ > kMaxEbnfDepth) {
        refuse(fmt::format("groups are nested more than {} deep", kMaxEbnfDepth));
      }
      ++at_;
    } else if (c == ')') {
      if (--depth_ < 0) refuse("unmatched ')'");
      ++at_;
    } else if (c == '{') {
      repetition();
    } else if (is_name(c)) {
      name();
    } else {
      ++at_;
    }
  }

  void skip_until(char end, std::string_view unended) {
    size_t i = at_ + 1;
    for (; i < text_.size() && text_[i] != end; ++i) {
      if (text_[i] == '\\') ++i;
    }
    if (i >= text_.size()) refuse(unended);
    at_ = i + 1;
  }

  void repetition() {
    std::int64_t number = 0;
    for (++at_; at_ < text_.size() && text_[at_] != '}'; ++at_) {
      const char c = text_[at_];
      number = c >= '0' && c <= '9' ? number * 10 + (c - '0') : c == ',' ? 0 : number;
      if (number > kMaxEbnfRepeat) {
        refuse(fmt::format("a repetition of more than {}", kMaxEbnfRepeat));
      }
    }
    ++at_;
  }

  void name() {
    const size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string_view word = text_.substr(begin, at_ - begin);
    const char next = at_ < text_.size() ? text_[at_] : ' ';
    if (next == '(' &&
        std::find(std::begin(kMacros), std::end(kMacros), word) != std::end(kMacros)) {
      refuse(fmt::format("{}(…) is not served; structural_tag can say it", word));
    }
    if (next != '[') return;
    // Attributes of a rule (temperature, max_tokens, …) look like a class behind its name.
    const size_t end = std::min(text_.find(']', at_), text_.size());
    const size_t after = std::min(text_.find_first_not_of(" \t", end + 1), text_.size());
    if (text_.substr(after, 3) == "::=") refuse("attributes of rules are not served");
  }

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

void check_ebnf(std::string_view text) {
  if (text.size() > kMaxEbnfBytes) {
    refuse_grammar(fmt::format("it has {} bytes; the limit is {}", text.size(), kMaxEbnfBytes));
  }
  if (text.find('\0') != text.npos) refuse_grammar("it has a NUL character");
  for (size_t at = 0; at < text.size();) {
    const text::Utf8Step step = text::utf8_step(text.substr(at));
    if (step.kind != text::Utf8Kind::kValid) refuse_grammar("it is not valid UTF-8");
    at += step.length;
  }
  EbnfScan(text).run();
}

}  // namespace quern::grammar
