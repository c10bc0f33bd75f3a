#include "text/bpe_tokenizer.h"

#include <fmt/format.h>
#include <simdjson.h>

#include "text/utf8.h"

namespace quern::text {
namespace {

std::vector<AddedToken> with_normalized(const std::vector<AddedToken>& tokens, bool normalized) {
  std::vector<AddedToken> out;
  for (const AddedToken& token : tokens) {
    if (token.normalized == normalized) out.push_back(token);
  }
  return out;
}

}  // namespace

struct BpeTokenizer::Scratch {
  MatchScratch match;
  Bpe::Scratch bpe;
  std::string storage;
  std::vector<std::string_view> words;
};

BpeTokenizer::BpeTokenizer(TokenizerSpec spec)
    : vocabulary_(std::move(spec.vocabulary)),
      first_(with_normalized(spec.added_tokens, false), vocabulary_.origin()),
      second_(with_normalized(spec.added_tokens, true), vocabulary_.origin()),
      pre_tokenizer_(std::move(spec.pre_tokenizer)),
      bpe_(vocabulary_, std::move(spec.merges), spec.whole_words),
      bos_id_(spec.bos_id) {
  if (bos_id_ != -1 && vocabulary_.kind(bos_id_) == TokenKind::kNone) {
    vocabulary_.fail(fmt::format("the beginning-of-text id {} has no token", bos_id_));
  }
}

TokenText BpeTokenizer::text(std::int32_t id) const {
  const std::string_view bytes = is_control(id) ? vocabulary_.text(id) : vocabulary_.bytes(id);
  return {bytes, bytes, vocabulary_.kind(id) != TokenKind::kNone};
}

std::vector<std::int32_t> BpeTokenizer::encode(std::span<const PromptPiece> pieces,
                                               bool add_special_tokens) const {
  std::string text;
  std::vector<Span> trusted;
  for (const PromptPiece& piece : pieces) {
    const std::size_t begin = text.size();
    text += piece.text;
    if (!piece.trusted || piece.text.empty()) continue;
    if (!trusted.empty() && trusted.back().end == begin) {
      trusted.back().end = text.size();
    } else {
      trusted.push_back({begin, text.size()});
    }
  }
  Scratch scratch;
  std::vector<Segment> segments, inner;
  first_.split(text, {0, text.size()}, trusted, scratch.match, segments);
  std::vector<std::int32_t> ids;
  ids.reserve(text.size() / 3 + 8);
  for (const Segment& segment : segments) {
    inner.clear();
    if (segment.id >= 0) {
      inner.push_back(segment);
    } else {
      second_.split(text, segment.span, trusted, scratch.match, inner);
    }
    for (const Segment& part : inner) {
      if (part.id >= 0) {
        ids.push_back(part.id);
      } else {
        encode_text(std::string_view(text).substr(part.span.begin, part.span.size()), scratch, ids);
      }
    }
  }
  if (add_special_tokens && bos_id_ >= 0 && (ids.empty() || ids.front() != bos_id_))
    ids.insert(ids.begin(), bos_id_);
  return ids;
}

void BpeTokenizer::encode_text(std::string_view text, Scratch& scratch,
                               std::vector<std::int32_t>& ids) const {
  if (simdjson::validate_utf8(text.data(), text.size())) {
    encode_words(text, scratch, ids);
    return;
  }
  while (!text.empty()) {
    std::size_t end = 0;
    const bool valid = utf8_step(text).kind == Utf8Kind::kValid;
    while (end < text.size()) {
      const Utf8Step step = utf8_step(text.substr(end));
      if ((step.kind == Utf8Kind::kValid) != valid) break;
      end += step.length;
    }
    if (valid) {
      encode_words(text.substr(0, end), scratch, ids);
    } else {
      bpe_.encode(text.substr(0, end), scratch.bpe, ids);
    }
    text.remove_prefix(end);
  }
}

void BpeTokenizer::encode_words(std::string_view text, Scratch& scratch,
                                std::vector<std::int32_t>& ids) const {
  pre_tokenizer_.split(text, scratch.match, scratch.storage, scratch.words);
  for (const std::string_view word : scratch.words) bpe_.encode(word, scratch.bpe, ids);
}

}  // namespace quern::text
