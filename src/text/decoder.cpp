#include "text/decoder.h"

#include <algorithm>
#include <array>

#include "text/byte_alphabet.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace quern::text {
namespace {

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  std::string out;
  std::size_t done = 0;
  for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, done)) {
    out.append(text, done, at - done).append(to);
    done = at + from.size();
  }
  if (done > 0) text = std::move(out.append(text, done));
}

void replace_all(std::string& text, const ReplaceDecode& step, MatchScratch& scratch) {
  if (!step.pattern) return replace_all(text, step.literal, step.content);
  std::string out;
  std::size_t done = 0;
  Span match{};
  for (std::size_t at = 0; at <= text.size();) {
    if (step.pattern->find(text, at, scratch, match) != MatchResult::kMatch) break;
    out.append(text, done, match.begin - done).append(step.content);
    done = at = match.end;
    if (match.size() > 0) continue;
    at += at < text.size() ? utf8_step(std::string_view(text).substr(at)).length : 1;
  }
  text = std::move(out.append(text, done));
}

void clean_up(std::string& text) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 11> kPairs = {{
      {" .", "."},
      {" ?", "?"},
      {" !", "!"},
      {" ,", ","},
      {" ' ", "'"},
      {" n't", "n't"},
      {" 'm", "'m"},
      {" do not", " don't"},
      {" 's", "'s"},
      {" 've", "'ve"},
      {" 're", "'re"},
  }};
  for (const auto& [from, to] : kPairs) replace_all(text, from, to);
}

struct Step {
  std::string& text;
  bool first;
  MatchScratch& scratch;

  void operator()(ByteLevelDecode) const {
    if (auto bytes = from_alphabet(text)) text = std::move(*bytes);
  }
  void operator()(ByteFallbackDecode) const {
    const int byte = byte_named(text);
    if (byte >= 0) text = std::string(1, static_cast<char>(byte));
  }
  void operator()(FuseDecode) const {}
  void operator()(const ReplaceDecode& step) const { replace_all(text, step, scratch); }
  void operator()(const StripDecode& step) const {
    const std::string_view unit = step.content;
    for (std::int32_t n = 0; n < step.start && text.starts_with(unit); ++n) {
      text.erase(0, unit.size());
    }
    for (std::int32_t n = 0; n < step.stop && text.ends_with(unit); ++n) {
      text.resize(text.size() - unit.size());
    }
  }
  void operator()(const MetaspaceDecode& step) const {
    replace_all(text, step.replacement, first && step.drop_first ? "" : " ");
  }
  void operator()(const WordPieceDecode& step) const {
    if (!first) {
      if (text.starts_with(step.prefix)) {
        text.erase(0, step.prefix.size());
      } else {
        text.insert(text.begin(), ' ');
      }
    }
    if (step.cleanup) clean_up(text);
  }
  void operator()(JoinDecode) const {
    if (!first) text.insert(text.begin(), ' ');
  }
  void operator()(const SentencePieceDecode& step) const {
    constexpr std::string_view kBlank = "\xE2\x96\x81";
    if (first && (step.dummy_prefix || step.all_leading) && text.starts_with(kBlank)) {
      text.erase(0, kBlank.size());
    }
    replace_all(text, kBlank, " ");
  }
};

}  // namespace

Decoder::Text Decoder::text_of(std::string_view token, bool byte, MatchScratch& scratch) const {
  if (byte && byte_named(token) >= 0) {
    const std::string text(1, static_cast<char>(byte_named(token)));
    return {text, text};
  }
  Text out{std::string(token), std::string(token)};
  for (const DecoderStep& step : steps_) {
    if (std::holds_alternative<FuseDecode>(step)) break;
    std::visit(Step{out.inside, false, scratch}, step);
    std::visit(Step{out.first, true, scratch}, step);
    // A byte may be part of a character, which steps over text cannot look at.
    if (std::holds_alternative<ByteFallbackDecode>(step) && byte_named(token) >= 0) break;
  }
  return out;
}

DecodeRules Decoder::rules() const {
  DecodeRules rules;
  bool fused = false;
  for (const DecoderStep& step : steps_) {
    if (std::holds_alternative<ByteFallbackDecode>(step)) {
      rules.replace = Utf8Decoder::Replace::kBytes;
    } else if (std::holds_alternative<FuseDecode>(step)) {
      fused = true;
    } else if (const auto* pieces = std::get_if<SentencePieceDecode>(&step)) {
      rules.replace = Utf8Decoder::Replace::kBytes;
      rules.begins_until_text = pieces->all_leading;
    } else if (const auto* strip = std::get_if<StripDecode>(&step); strip != nullptr && fused) {
      rules.strip = strip->content;
      rules.strip_begin = strip->start;
      rules.strip_end = strip->stop;
    }
  }
  return rules;
}

}  // namespace quern::text
