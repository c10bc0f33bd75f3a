#include "text/pipeline_tokenizer.h"

#include <fmt/format.h>
#include <simdjson.h>

#include <algorithm>

#include "text/utf8.h"

namespace quern::text {
namespace {

// Tokens of the first or the second pass; those of the second are looked for as the normalizer
// writes them, but for `raw`.
std::vector<AddedToken> of_pass(const std::vector<AddedToken>& tokens, bool second,
                                const Normalizer& normalizer) {
  std::vector<AddedToken> out;
  MatchScratch scratch;
  for (const AddedToken& token : tokens) {
    if (token.normalized != second) continue;
    out.push_back(token);
    if (second && !token.verbatim && replace_invalid(token.text) == token.text) {
      normalizer.run(out.back().text, scratch);
      if (out.back().text.empty()) out.pop_back();
    }
  }
  return out;
}

std::vector<AddedToken> special_of_second(const std::vector<AddedToken>& tokens,
                                          const Normalizer& normalizer) {
  std::vector<AddedToken> out;
  if (normalizer.empty()) return out;
  for (const AddedToken& token : tokens) {
    if (token.normalized && token.special) out.push_back(token);
  }
  return out;
}

}  // namespace

struct PipelineTokenizer::Scratch {
  std::string text;
  std::vector<Span> trusted;  // of text, ascending, none touching the next
  MatchScratch match;
  Bpe::Scratch bpe;
  Unigram::Scratch unigram;
  std::string storage;
  std::vector<std::string_view> words;
  std::vector<Segment> inner;
};

PipelineTokenizer::Model PipelineTokenizer::make_model(const Vocabulary& vocabulary,
                                                       const ModelSpec& spec) {
  if (const auto* bpe = std::get_if<BpeSpec>(&spec)) {
    return Bpe(vocabulary, bpe->merges, bpe->options);
  }
  if (const auto* unigram = std::get_if<UnigramSpec>(&spec)) {
    return Unigram(vocabulary, unigram->scores, unigram->options);
  }
  return WordPiece(vocabulary, std::get<WordPieceOptions>(spec));
}

PipelineTokenizer::PipelineTokenizer(TokenizerSpec spec)
    : vocabulary_(std::move(spec.vocabulary)),
      normalizer_(std::move(spec.normalizer)),
      first_(of_pass(spec.added_tokens, false, normalizer_), vocabulary_.origin()),
      second_(of_pass(spec.added_tokens, true, normalizer_), vocabulary_.origin()),
      mixed_(special_of_second(spec.added_tokens, normalizer_), vocabulary_.origin()),
      pre_tokenizer_(std::move(spec.pre_tokenizer)),
      model_(make_model(vocabulary_, spec.model)),
      prefix_(std::move(spec.prefix)),
      suffix_(std::move(spec.suffix)) {
  const auto* bpe = std::get_if<BpeSpec>(&spec.model);
  byte_level_ = bpe != nullptr && bpe->options.byte_level;
  for (const auto& around : {prefix_, suffix_}) {
    for (const std::int32_t id : around) {
      if (vocabulary_.kind(id) != TokenKind::kNone) continue;
      vocabulary_.fail(fmt::format("the id {} to put around a text has no token", id));
    }
  }
  const Decoder decoder(std::move(spec.decoder));
  rules_ = decoder.rules();
  write_texts(decoder, spec.unknown_text);
}

void PipelineTokenizer::write_texts(const Decoder& decoder, const std::string& unknown) {
  MatchScratch scratch;
  written_.resize(static_cast<std::size_t>(vocabulary_.size()));
  for (std::int32_t id = 0; id < vocabulary_.size(); ++id) {
    const TokenKind kind = vocabulary_.kind(id);
    if (kind == TokenKind::kNone || kind == TokenKind::kUnused) continue;
    const Decoder::Text text =
        kind == TokenKind::kUnknown
            ? Decoder::Text{unknown, unknown}
            : decoder.text_of(vocabulary_.text(id), kind == TokenKind::kByte, scratch);
    Written& written = written_[static_cast<std::size_t>(id)];
    written = {
        static_cast<std::uint32_t>(letters_.size()), static_cast<std::uint32_t>(text.inside.size()),
        static_cast<std::uint32_t>(letters_.size()), static_cast<std::uint32_t>(text.first.size())};
    letters_ += text.inside;
    if (text.first == text.inside) continue;
    written.first = static_cast<std::uint32_t>(letters_.size());
    letters_ += text.first;
  }
}

TokenText PipelineTokenizer::text(std::int32_t id) const {
  if (vocabulary_.kind(id) == TokenKind::kNone) return {};
  const Written& written = written_[static_cast<std::size_t>(id)];
  const std::string_view letters = letters_;
  return {letters.substr(written.inside, written.inside_size),
          letters.substr(written.first, written.first_size), true};
}

std::vector<std::int32_t> PipelineTokenizer::encode(std::span<const PromptPiece> pieces,
                                                    EncodeOptions options) const {
  Scratch scratch;
  for (const PromptPiece& piece : pieces) {
    const std::size_t begin = scratch.text.size();
    scratch.text += piece.text;
    if (!piece.trusted || piece.text.empty()) continue;
    if (!scratch.trusted.empty() && scratch.trusted.back().end == begin) {
      scratch.trusted.back().end = scratch.text.size();
    } else {
      scratch.trusted.push_back({begin, scratch.text.size()});
    }
  }
  std::vector<Segment> segments;
  first_.split(scratch.text, {0, scratch.text.size()}, scratch.trusted, scratch.match, segments);
  std::vector<std::int32_t> ids;
  ids.reserve(scratch.text.size() / 3 + 8);
  for (const Segment& segment : segments) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
    } else {
      encode_segment(scratch, segment.span, ids);
    }
  }
  put_around(options, ids);
  return ids;
}

void PipelineTokenizer::put_around(EncodeOptions options, std::vector<std::int32_t>& ids) const {
  if (!options.add_special_tokens) return;
  const auto has = [&](const std::vector<std::int32_t>& around, auto begin) {
    return options.once && ids.size() >= around.size() &&
           std::equal(around.begin(), around.end(), begin);
  };
  const auto behind = static_cast<std::ptrdiff_t>(suffix_.size());
  if (!suffix_.empty() && (ids.size() < suffix_.size() || !has(suffix_, ids.end() - behind))) {
    ids.insert(ids.end(), suffix_.begin(), suffix_.end());
  }
  if (!prefix_.empty() && !has(prefix_, ids.begin())) {
    ids.insert(ids.begin(), prefix_.begin(), prefix_.end());
  }
}

// Text without tokens of the first pass.
void PipelineTokenizer::encode_segment(Scratch& scratch, Span span,
                                       std::vector<std::int32_t>& ids) const {
  const std::string_view text = std::string_view(scratch.text).substr(span.begin, span.size());
  const bool begins = span.begin == 0;
  // Trusted parts, as seen from the segment.
  std::vector<Span> trusted;
  auto part = std::partition_point(scratch.trusted.begin(), scratch.trusted.end(),
                                   [&](const Span& s) { return s.end <= span.begin; });
  for (; part != scratch.trusted.end() && part->begin < span.end; ++part) {
    trusted.push_back({std::max(part->begin, span.begin) - span.begin,
                       std::min(part->end, span.end) - span.begin});
  }
  if (normalizer_.empty() && byte_level_) return encode_normal(text, begins, trusted, scratch, ids);
  const bool whole = trusted.size() == 1 && trusted[0].size() == text.size();
  if (whole || trusted.empty() || mixed_.empty()) {
    const std::string normal = normalize(text, scratch);
    trusted.clear();
    if (whole) trusted.push_back({0, normal.size()});
    return encode_normal(normal, begins, trusted, scratch, ids);
  }
  // What the normalizer makes of it no longer tells which parts were trusted: look before it.
  std::vector<Segment> parts;
  mixed_.split(scratch.text, span, scratch.trusted, scratch.match, parts);
  for (const Segment& segment : parts) {
    if (segment.id >= 0) {
      ids.push_back(segment.id);
      continue;
    }
    const std::string normal = normalize(
        std::string_view(scratch.text).substr(segment.span.begin, segment.span.size()), scratch);
    encode_normal(normal, segment.span.begin == 0, {}, scratch, ids);
  }
}

// Byte-level models keep bytes that are no text, which cannot be normalized.
std::string PipelineTokenizer::normalize(std::string_view text, Scratch& scratch) const {
  if (simdjson::validate_utf8(text.data(), text.size())) {
    std::string normal(text);
    normalizer_.run(normal, scratch.match);
    return normal;
  }
  if (!byte_level_) {
    std::string normal = replace_invalid(text);
    normalizer_.run(normal, scratch.match);
    return normal;
  }
  std::string normal, part;
  while (!text.empty()) {
    std::size_t end = 0;
    while (end < text.size()) {
      const Utf8Step step = utf8_step(text.substr(end));
      if (step.kind != Utf8Kind::kValid) break;
      end += step.length;
    }
    part = text.substr(0, end);
    normalizer_.run(part, scratch.match);
    normal += part;
    text.remove_prefix(end);
    const std::size_t bad = text.empty() ? 0 : utf8_step(text).length;
    normal += text.substr(0, bad);
    text.remove_prefix(bad);
  }
  return normal;
}

void PipelineTokenizer::encode_normal(std::string_view text, bool begins,
                                      const std::vector<Span>& trusted, Scratch& scratch,
                                      std::vector<std::int32_t>& ids) const {
  scratch.inner.clear();
  second_.split(text, {0, text.size()}, trusted, scratch.match, scratch.inner);
  for (const Segment& part : scratch.inner) {
    if (part.id >= 0) {
      ids.push_back(part.id);
    } else {
      encode_words(text.substr(part.span.begin, part.span.size()), begins && part.span.begin == 0,
                   scratch, ids);
    }
  }
}

void PipelineTokenizer::encode_words(std::string_view text, bool begins, Scratch& scratch,
                                     std::vector<std::int32_t>& ids) const {
  const auto encode_text = [&](std::string_view part) {
    if (pre_tokenizer_.empty()) return encode_word(part, scratch, ids);
    pre_tokenizer_.split(part, begins, scratch.match, scratch.storage, scratch.words);
    for (const std::string_view word : scratch.words) encode_word(word, scratch, ids);
  };
  if (!byte_level_ || simdjson::validate_utf8(text.data(), text.size())) return encode_text(text);
  while (!text.empty()) {
    std::size_t end = 0;
    const bool valid = utf8_step(text).kind == Utf8Kind::kValid;
    while (end < text.size()) {
      const Utf8Step step = utf8_step(text.substr(end));
      if ((step.kind == Utf8Kind::kValid) != valid) break;
      end += step.length;
    }
    if (valid) {
      encode_text(text.substr(0, end));
    } else {
      encode_word(text.substr(0, end), scratch, ids);
    }
    begins = false;
    text.remove_prefix(end);
  }
}

void PipelineTokenizer::encode_word(std::string_view word, Scratch& scratch,
                                    std::vector<std::int32_t>& ids) const {
  if (const auto* bpe = std::get_if<Bpe>(&model_)) {
    bpe->encode(word, scratch.bpe, ids);
  } else if (const auto* unigram = std::get_if<Unigram>(&model_)) {
    unigram->encode(word, scratch.unigram, ids);
  } else {
    std::get<WordPiece>(model_).encode(word, ids);
  }
}

}  // namespace quern::text
