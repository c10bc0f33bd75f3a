#include "text/unigram.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "text/utf8.h"

namespace quern::text {
namespace {

constexpr double kUnknownPenalty = 10;
// 24 bytes of memory for each byte of a part; longer words are cut.
constexpr std::size_t kMaxPart = std::size_t{1} << 26;

}  // namespace

Unigram::Unigram(const Vocabulary& vocabulary, std::vector<double> scores, UnigramOptions options)
    : options_(options), scores_(std::move(scores)) {
  byte_ids_.fill(-1);
  if (scores_.size() != static_cast<std::size_t>(vocabulary.size())) {
    // Tokens added behind the model's own are not made by it.
    if (scores_.size() > static_cast<std::size_t>(vocabulary.size())) {
      vocabulary.fail(fmt::format("{} scores for {} tokens", scores_.size(), vocabulary.size()));
    }
  }
  double lowest = scores_.empty() ? 0 : scores_[0];
  user_defined_.resize(scores_.size());
  for (std::size_t i = 0; i < scores_.size(); ++i) {
    const auto id = static_cast<std::int32_t>(i);
    const TokenKind kind = vocabulary.kind(id);
    if (!std::isfinite(scores_[i])) {
      vocabulary.fail(fmt::format("the score of token {} is not a number", id));
    }
    const bool piece = kind == TokenKind::kNormal || kind == TokenKind::kUserDefined;
    if (piece || !options_.sentencepiece) lowest = std::min(lowest, scores_[i]);
    if (piece) best_score_ = std::max(best_score_, scores_[i]);
    user_defined_[i] = kind == TokenKind::kUserDefined && options_.sentencepiece;
    const int byte = options_.byte_fallback ? byte_named(vocabulary.text(id)) : -1;
    if (byte >= 0) byte_ids_[static_cast<std::size_t>(byte)] = id;
    if (piece && id != options_.unk_id) trie_.insert(vocabulary.text(id), id);
  }
  unk_score_ = lowest - kUnknownPenalty;
}

double Unigram::score_of(std::int32_t id, std::size_t length) const {
  const auto index = static_cast<std::size_t>(id);
  if (!user_defined_[index]) return scores_[index];
  return static_cast<double>(length) * best_score_ - 0.1;
}

void Unigram::encode(std::string_view word, Scratch& scratch,
                     std::vector<std::int32_t>& ids) const {
  while (word.size() > kMaxPart) {
    std::size_t size = kMaxPart;
    while ((word[size] & 0xC0) == 0x80) --size;
    encode_part(word.substr(0, size), scratch, ids);
    word.remove_prefix(size);
  }
  encode_part(word, scratch, ids);
}

void Unigram::encode_part(std::string_view part, Scratch& scratch,
                          std::vector<std::int32_t>& ids) const {
  auto& best = scratch.best;
  best.assign(part.size() + 1, {});
  const auto offer = [&](std::size_t begin, std::size_t end, std::int32_t id, double score) {
    Scratch::Best& target = best[end];
    score += best[begin].score;
    if (options_.sentencepiece) score = static_cast<float>(score);
    if (target.begin < 0 || score > target.score) {
      target = {score, id, static_cast<std::int64_t>(begin)};
    }
  };
  for (std::size_t begin = 0; begin < part.size();) {
    std::size_t behind = begin;
    next_char(part, behind);
    bool single = false;
    std::uint32_t node = Trie::kRoot;
    for (std::size_t at = begin; at < part.size();) {
      node = trie_.next(node, part[at]);
      ++scratch.steps;
      if (node == Trie::kNowhere) break;
      ++at;
      const std::int32_t id = trie_.value(node);
      if (id < 0) continue;
      offer(begin, at, id, score_of(id, at - begin));
      single |= at == behind;
    }
    if (!single) offer(begin, behind, -1, unk_score_);
    begin = behind;
  }
  scratch.ids.clear();
  std::vector<std::int32_t>& found = scratch.ids;
  // Backwards: the end of a run of unknown characters is met first.
  std::size_t unknown_end = 0;
  std::vector<std::int32_t> bytes;
  const auto close = [&](std::size_t begin) {
    if (unknown_end == 0) return;
    bytes.clear();
    add_unknown(part.substr(begin, unknown_end - begin), bytes);
    found.insert(found.end(), bytes.rbegin(), bytes.rend());
    unknown_end = 0;
  };
  for (std::size_t end = part.size(); end > 0;) {
    const Scratch::Best& node = best[end];
    if (node.id >= 0) {
      close(end);
      found.push_back(node.id);
    } else if (unknown_end == 0) {
      unknown_end = end;
    }
    end = static_cast<std::size_t>(node.begin);
  }
  close(0);
  ids.insert(ids.end(), found.rbegin(), found.rend());
}

void Unigram::add_unknown(std::string_view text, std::vector<std::int32_t>& ids) const {
  const auto id_of = [&](char c) { return byte_ids_[static_cast<std::uint8_t>(c)]; };
  if (options_.byte_fallback &&
      std::all_of(text.begin(), text.end(), [&](char c) { return id_of(c) >= 0; })) {
    for (const char c : text) ids.push_back(id_of(c));
  } else if (options_.unk_id >= 0) {
    ids.push_back(options_.unk_id);
  }
}

}  // namespace quern::text
