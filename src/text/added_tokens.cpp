#include "text/added_tokens.h"

#include <algorithm>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/utf8.h"
#include "text/vocabulary.h"

namespace quern::text {
namespace {

// Bounds what one position of the text can cost.
constexpr std::size_t kMaxAddedToken = 1024;

Regex own(std::string_view pattern) { return {pattern, false, "quern"}; }

// Whether the character (of valid or invalid UTF-8) matches a pattern of one character.
bool is(const Regex& pattern, std::string_view character, MatchScratch& scratch) {
  Span match{};
  if (character.empty()) return false;
  const Utf8Step step = utf8_step(character);
  if (step.kind != Utf8Kind::kValid || step.length != character.size()) return false;
  return pattern.find(character, 0, scratch, match) == MatchResult::kMatch;
}

std::string_view first_character(std::string_view text) {
  return text.empty() ? text : text.substr(0, utf8_step(text).length);
}

std::string_view last_character(std::string_view text) {
  std::size_t length = 1;
  while (length < 4 && length < text.size() && (text[text.size() - length] & 0xC0) == 0x80) {
    ++length;
  }
  return text.substr(text.size() - std::min(length, text.size()));
}

bool is_word(std::string_view character, MatchScratch& scratch) {
  static const Regex pattern = own(R"([\p{L}\p{M}\p{Nd}\p{Nl}\p{Pc}\x{200C}\x{200D}])");
  return is(pattern, character, scratch);
}

bool is_space(std::string_view character, MatchScratch& scratch) {
  static const Regex pattern = own(R"(\s)");
  return is(pattern, character, scratch);
}

}  // namespace

AddedTokens::AddedTokens(std::vector<AddedToken> tokens, std::string_view origin)
    : tokens_(std::move(tokens)), ends_(1, -1) {
  for (std::size_t index = 0; index < tokens_.size(); ++index) {
    const std::string& text = tokens_[index].text;
    if (text.empty() || text.size() > kMaxAddedToken) {
      throw Error(errors::kTokenizerInvalid,
                  {{"origin", origin},
                   {"what", fmt::format("the added token {} of id {} must have 1 to {} bytes",
                                        shown(text), tokens_[index].id, kMaxAddedToken)}});
    }
    begins_[static_cast<std::uint8_t>(text[0])] = true;
    std::uint32_t node = 0;
    for (const char c : text) {
      const std::uint64_t edge = std::uint64_t{node} << 8 | static_cast<std::uint8_t>(c);
      if (edges_.insert(edge, static_cast<std::uint32_t>(ends_.size()))) ends_.push_back(-1);
      node = *edges_.find(edge);
    }
    ends_[node] = static_cast<std::int32_t>(index);
  }
}

bool AddedTokens::next(std::string_view text, Span piece, const std::vector<Span>& trusted,
                       Match& match) const {
  auto region = std::partition_point(trusted.begin(), trusted.end(),
                                     [&](const Span& span) { return span.end <= piece.begin; });
  for (std::size_t begin = piece.begin; begin < piece.end; ++begin) {
    if (!begins_[static_cast<std::uint8_t>(text[begin])]) continue;
    while (region != trusted.end() && region->end <= begin) ++region;
    const bool inside = region != trusted.end() && region->begin <= begin;
    match.token = nullptr;
    std::uint32_t node = 0;
    for (std::size_t end = begin; end < piece.end;) {
      const std::uint32_t* child =
          edges_.find(std::uint64_t{node} << 8 | static_cast<std::uint8_t>(text[end]));
      if (child == nullptr) break;
      node = *child;
      ++end;
      if (ends_[node] < 0) continue;
      const AddedToken& token = tokens_[static_cast<std::size_t>(ends_[node])];
      if (!token.special || (inside && end <= region->end)) match = {{begin, end}, &token};
    }
    if (match.token != nullptr) return true;
  }
  return false;
}

void AddedTokens::split(std::string_view text, Span piece, const std::vector<Span>& trusted,
                        MatchScratch& scratch, std::vector<Segment>& out) const {
  if (tokens_.empty()) {
    if (piece.size() > 0) out.push_back({piece, -1});
    return;
  }
  std::size_t done = piece.begin;
  Match match;
  for (Span rest = piece; next(text, rest, trusted, match); rest.begin = match.span.end) {
    const AddedToken& token = *match.token;
    std::size_t begin = match.span.begin, end = match.span.end;
    if (token.single_word || token.lstrip || token.rstrip) {
      std::string_view before = text.substr(done, begin - done);
      std::string_view behind = text.substr(end, piece.end - end);
      if (token.single_word &&
          (is_word(last_character(text.substr(piece.begin, begin - piece.begin)), scratch) ||
           is_word(first_character(behind), scratch))) {
        continue;
      }
      while (token.lstrip && is_space(last_character(before), scratch)) {
        before.remove_suffix(last_character(before).size());
      }
      while (token.rstrip && is_space(first_character(behind), scratch)) {
        behind.remove_prefix(first_character(behind).size());
      }
      begin = done + before.size();
      end = piece.end - behind.size();
    }
    if (done < begin) out.push_back({{done, begin}, -1});
    out.push_back({{begin, end}, token.id});
    done = end;
    match.span.end = end;
  }
  if (done < piece.end) out.push_back({{done, piece.end}, -1});
}

}  // namespace quern::text
