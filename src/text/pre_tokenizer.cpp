#include "text/pre_tokenizer.h"

#include <algorithm>

#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace quern::text {
namespace {

struct Part {
  Span span;
  bool matched;
};

// Matches and what lies between them, in order, covering all of `piece`.
void match_parts(const Regex& pattern, std::string_view piece, MatchScratch& scratch,
                 std::vector<Part>& parts) {
  parts.clear();
  std::size_t done = 0, at = 0;
  while (at <= piece.size() && (at > 0 || pattern.can_match(piece))) {
    Span match{};
    if (pattern.find(piece, at, scratch, match) != MatchResult::kMatch) break;
    // An empty match just behind the last one would stand still.
    const bool stuck = match.size() == 0 && match.end == done && done > 0;
    if (!stuck) {
      if (match.begin > done) parts.push_back({{done, match.begin}, false});
      parts.push_back({match, true});
      done = match.end;
    }
    at = match.end;
    if (match.size() == 0) {
      at += at < piece.size() ? utf8_step(piece.substr(at)).length : 1;
    }
  }
  if (done < piece.size()) parts.push_back({{done, piece.size()}, false});
}

// Appends the pieces that the behaviour makes of the parts; empty ones are left out.
void apply(SplitBehavior behavior, const std::vector<Part>& parts, std::size_t base,
           std::vector<Span>& out) {
  const std::size_t first = out.size();
  bool previous = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const auto& [span, matched] = parts[i];
    bool join = false;
    switch (behavior) {
      case SplitBehavior::kIsolated: break;
      case SplitBehavior::kRemoved:
        if (matched) continue;
        break;
      case SplitBehavior::kContiguous: join = matched == previous; break;
      case SplitBehavior::kMergedWithPrevious: join = matched && !previous; break;
      case SplitBehavior::kMergedWithNext: join = previous && !matched; break;
    }
    previous = matched;
    const Span whole{base + span.begin, base + span.end};
    if (join && out.size() > first) {
      out.back().end = whole.end;
    } else {
      out.push_back(whole);
    }
  }
  const auto begin = out.begin() + static_cast<std::ptrdiff_t>(first);
  out.erase(std::remove_if(begin, out.end(), [](const Span& s) { return s.size() == 0; }),
            out.end());
}

void run_split(const SplitStep& step, std::string_view text, MatchScratch& scratch,
               std::vector<Span>& spans) {
  std::vector<Span> out;
  out.reserve(spans.size() * 2);
  std::vector<Part> parts;
  for (const Span& span : spans) {
    match_parts(step.pattern, text.substr(span.begin, span.size()), scratch, parts);
    if (step.invert) {
      for (Part& part : parts) part.matched = !part.matched;
    }
    apply(step.behavior, parts, span.begin, out);
  }
  spans.swap(out);
}

void add_prefix_spaces(std::string_view& text, std::string& storage, std::vector<Span>& spans) {
  std::string out;
  out.reserve(text.size() + spans.size());
  for (Span& span : spans) {
    const std::string_view piece = text.substr(span.begin, span.size());
    span.begin = out.size();
    if (!piece.starts_with(' ')) out += ' ';
    out += piece;
    span.end = out.size();
  }
  storage = std::move(out);
  text = storage;
}

void apply_metaspace(const MetaspaceStep& step, bool begins, std::string_view& text,
                     std::string& storage, std::vector<Span>& spans) {
  std::string out;
  out.reserve(text.size() + text.size() / 2 + 8);
  for (Span& span : spans) {
    const std::string_view piece = text.substr(span.begin, span.size());
    const bool first = begins && span.begin == 0;
    span.begin = out.size();
    if (step.prepend == MetaspaceStep::Prepend::kAlways ||
        (step.prepend == MetaspaceStep::Prepend::kFirst && first)) {
      if (!piece.starts_with(' ') && !piece.starts_with(step.replacement)) out += step.replacement;
    }
    for (const char c : piece) {
      if (c == ' ') {
        out += step.replacement;
      } else {
        out += c;
      }
    }
    span.end = out.size();
  }
  storage = std::move(out);
  text = storage;
  if (!step.split) return;
  std::vector<Span> cut;
  for (Span span : spans) {
    while (span.size() > 0) {
      const std::size_t next =
          std::min(text.substr(0, span.end).find(step.replacement, span.begin + 1), span.end);
      cut.push_back({span.begin, next});
      span.begin = next;
    }
  }
  spans.swap(cut);
}

void write_in_alphabet(std::string_view& text, std::string& storage, std::vector<Span>& spans) {
  std::string out;
  out.reserve(text.size() * 2);
  for (Span& span : spans) {
    const std::size_t begin = out.size();
    for (std::size_t i = span.begin; i < span.end; ++i) {
      out += alphabet_of(static_cast<std::uint8_t>(text[i]));
    }
    span = {begin, out.size()};
  }
  storage = std::move(out);
  text = storage;
}

void read_from_alphabet(std::string_view& text, std::string& storage, std::vector<Span>& spans) {
  std::string out;
  out.reserve(text.size());
  for (Span& span : spans) {
    const std::size_t begin = out.size();
    // Steps cut between characters only, and all characters are of the alphabet.
    out += from_alphabet(text.substr(span.begin, span.size())).value_or("");
    span = {begin, out.size()};
  }
  storage = std::move(out);
  text = storage;
}

Regex own(std::string_view pattern) { return {pattern, false, "quern"}; }

const SplitStep& gpt2_split() {
  static const SplitStep step = {
      own(R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
      SplitBehavior::kIsolated, false};
  return step;
}

}  // namespace

// The patterns begin by what can begin a match, so that words without any are passed over quickly
// (Regex::can_match), which PCRE2 does not see in a property.
PreTokenizerStep digits_split(bool individual) {
  static const Regex one = own(R"((?=[0-9\x{80}-\x{10FFFF}])\p{N})"),
                     run = own(R"((?=[0-9\x{80}-\x{10FFFF}])\p{N}+)");
  return SplitStep{individual ? one : run, SplitBehavior::kIsolated, false};
}

PreTokenizerStep punctuation_split(SplitBehavior behavior) {
  static const Regex one = own(R"((?=[!-\/:-@\[-`\{-~\x{80}-\x{10FFFF}])[!-\/:-@\[-`\{-~\p{P}])"),
                     run = own(R"((?=[!-\/:-@\[-`\{-~\x{80}-\x{10FFFF}])[!-\/:-@\[-`\{-~\p{P}]+)");
  if (behavior == SplitBehavior::kContiguous) {
    return SplitStep{run, SplitBehavior::kIsolated, false};
  }
  return SplitStep{one, behavior, false};
}

PreTokenizerStep white_space_split() {
  static const Regex pattern = own(R"(\s)");
  return SplitStep{pattern, SplitBehavior::kRemoved, false};
}

PreTokenizerStep word_split() {
  static const Regex pattern = own(R"([\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}]+|)"
                                   R"([^\p{Alphabetic}\p{M}\p{Nd}\p{Pc}\p{Join_Control}\s]+)");
  return SplitStep{pattern, SplitBehavior::kRemoved, true};
}

void PreTokenizer::split(std::string_view text, bool begins, MatchScratch& scratch,
                         std::string& storage, std::vector<std::string_view>& words) const {
  words.clear();
  if (text.empty()) return;
  std::vector<Span> spans = {{0, text.size()}};
  bool in_alphabet = false;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (const auto* split = std::get_if<SplitStep>(&steps_[i])) {
      run_split(*split, text, scratch, spans);
      continue;
    }
    if (const auto* blanks = std::get_if<MetaspaceStep>(&steps_[i])) {
      apply_metaspace(*blanks, begins, text, storage, spans);
      continue;
    }
    const auto& step = std::get<ByteLevelStep>(steps_[i]);
    if (step.add_prefix_space) add_prefix_spaces(text, storage, spans);
    if (step.use_regex) run_split(gpt2_split(), text, scratch, spans);
    if (i + 1 == steps_.size()) break;
    write_in_alphabet(text, storage, spans);
    in_alphabet = true;
  }
  if (in_alphabet) read_from_alphabet(text, storage, spans);
  words.reserve(spans.size());
  for (const Span& span : spans) words.push_back(text.substr(span.begin, span.size()));
}

}  // namespace quern::text
