#include "text/normalizer.h"

#include <algorithm>

#include "text/utf8.h"

namespace quern::text {
namespace {

constexpr std::string_view kBlank = "\xE2\x96\x81";  // U+2581

bool all_ascii(std::string_view text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return (c & 0x80) != 0; });
}

void apply(UnicodeForm form, std::string& text, MatchScratch&) {
  if (!all_ascii(text)) text = to_form(text, form);
}

void apply(const PrependStep& step, std::string& text, MatchScratch&) {
  if (!text.empty()) text.insert(0, step.text);
}

void apply(const ReplaceStep& step, std::string& text, MatchScratch& scratch) {
  std::string out;
  std::size_t done = 0;
  if (!step.pattern) {
    for (std::size_t at = text.find(step.literal); at != std::string::npos;
         at = text.find(step.literal, done)) {
      if (out.empty()) out.reserve(text.size() + text.size() / 2);
      out.append(text, done, at - done).append(step.content);
      done = at + step.literal.size();
    }
  } else {
    Span match{};
    for (std::size_t at = 0; at <= text.size();) {
      if (step.pattern->find(text, at, scratch, match) != MatchResult::kMatch) break;
      out.append(text, done, match.begin - done).append(step.content);
      done = at = match.end;
      if (match.size() > 0) continue;
      at += at < text.size() ? utf8_step(std::string_view(text).substr(at)).length : 1;
    }
  }
  if (done == 0 && out.empty()) return;
  text = std::move(out.append(text, done));
}

void apply(const StripStep& step, std::string& text, MatchScratch&) {
  std::size_t first = std::string::npos, last = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    if (is_white_space(next_char(text, at))) continue;
    if (first == std::string::npos) first = begin;
    last = at;
  }
  if (first == std::string::npos) first = text.size();
  if (step.right) text.resize(std::max(last, step.left ? first : 0));
  if (step.left) text.erase(0, std::min(first, text.size()));
}

// Calls `change(code, out)` for each character.
template <typename Change>
void each_char(std::string& text, Change&& change) {
  std::string out;
  out.reserve(text.size() + 16);
  for (std::size_t at = 0; at < text.size();) change(next_char(text, at), out);
  text = std::move(out);
}

void apply(LowercaseStep, std::string& text, MatchScratch&) {
  each_char(text, [](char32_t code, std::string& out) { append_lowercase(code, out); });
}

void apply(StripAccentsStep, std::string& text, MatchScratch&) {
  each_char(text, [](char32_t code, std::string& out) {
    if (!is_mark(code)) append_utf8(code, out);
  });
}

void apply(NmtStep, std::string& text, MatchScratch&) {
  each_char(text, [](char32_t c, std::string& out) {
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
        c == 0x9F) {
      return;
    }
    const bool blank = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    append_utf8(blank ? U' ' : c, out);
  });
}

bool is_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

void apply(const BertStep& step, std::string& text, MatchScratch& scratch) {
  if (step.clean_text) {
    each_char(text, [](char32_t c, std::string& out) {
      if (c == '\t' || c == '\n' || c == '\r' || is_white_space(c)) {
        if (c == 0x85 || c == 0xB || c == 0xC) return;  // control characters, before blanks
        out += ' ';
      } else if (c != 0 && c != 0xFFFD && !is_other(c)) {
        append_utf8(c, out);
      }
    });
  }
  if (step.handle_chinese_chars) {
    each_char(text, [](char32_t c, std::string& out) {
      const bool part = is_ideograph(c);
      if (part) out += ' ';
      append_utf8(c, out);
      if (part) out += ' ';
    });
  }
  if (step.strip_accents) {
    apply(UnicodeForm::kNfd, text, scratch);
    each_char(text, [](char32_t c, std::string& out) {
      if (!is_nonspacing_mark(c)) append_utf8(c, out);
    });
  }
  if (step.lowercase) apply(LowercaseStep{}, text, scratch);
}

void apply(const CharsmapStep& step, std::string& text, MatchScratch&) {
  constexpr std::size_t kLongestKey = 5;  // clusters of more bytes are not looked up whole
  std::string out;
  out.reserve(text.size() + 16);
  std::size_t begin = 0;
  for (const std::size_t end : grapheme_ends(text)) {
    const std::string_view cluster = std::string_view(text).substr(begin, end - begin);
    const auto whole = cluster.size() <= kLongestKey ? step.map.match(cluster, false)
                                                     : std::optional<Charsmap::Match>();
    if (whole) {
      out += whole->text;
    } else {
      for (std::size_t at = 0; at < cluster.size();) {
        const std::size_t from = at;
        next_char(cluster, at);
        const std::string_view part = cluster.substr(from, at - from);
        const auto one = step.map.match(part, false);
        out += one ? one->text : part;
      }
    }
    begin = end;
  }
  text = std::move(out);
}

void apply(const SentencePieceStep& step, std::string& text, MatchScratch&) {
  if (text.empty()) return;
  const std::string_view blank = step.escape_whitespaces ? kBlank : std::string_view(" ");
  const bool collapse = step.remove_extra_whitespaces;
  std::string out;
  out.reserve(text.size() + text.size() / 2 + 8);
  bool after_blank = collapse, begun = false;
  const auto begin_text = [&] {
    if (!begun && step.add_dummy_prefix && !step.blank_behind) out += blank;
    begun = true;
  };
  if (!collapse) begin_text();
  for (std::size_t at = 0; at < text.size();) {
    const std::string_view rest = std::string_view(text).substr(at);
    const auto key = step.map.match(rest, true);
    const std::size_t length = key ? key->length : utf8_step(rest).length;
    std::string_view part = key ? key->text : rest.substr(0, length);
    at += length;
    while (after_blank && part.starts_with(' ')) part.remove_prefix(1);
    if (part.empty()) continue;
    begin_text();
    for (const char c : part) {
      if (c == ' ') {
        out += blank;
      } else {
        out += c;
      }
    }
    after_blank = collapse && part.ends_with(' ');
  }
  while (collapse && begun && std::string_view(out).ends_with(blank)) {
    out.resize(out.size() - blank.size());
  }
  if (begun && step.add_dummy_prefix && step.blank_behind) out += blank;
  text = std::move(out);
}

}  // namespace

void Normalizer::run(std::string& text, MatchScratch& scratch) const {
  for (const NormalizerStep& step : steps_) {
    std::visit([&](const auto& s) { apply(s, text, scratch); }, step);
  }
}

}  // namespace quern::text
