#include "text/wordpiece.h"

#include <algorithm>

#include "base/error.h"

namespace quern::text {

WordPiece::WordPiece(const Vocabulary& vocabulary, WordPieceOptions options)
    : options_(std::move(options)) {
  if (vocabulary.kind(options_.unk_id) == TokenKind::kNone) {
    vocabulary.fail("the token for unknown words is missing");
  }
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenKind kind = vocabulary.kind(id);
    if (kind == TokenKind::kNormal || kind == TokenKind::kUserDefined) {
      trie_.insert(vocabulary.text(id), id);
    }
  }
  for (const char c : options_.prefix) {
    if (inside_ != Trie::kNowhere) inside_ = trie_.next(inside_, c);
  }
}

void WordPiece::encode(std::string_view word, std::vector<std::int32_t>& ids) const {
  const auto chars =
      std::count_if(word.begin(), word.end(), [](char c) { return (c & 0xC0) != 0x80; });
  const std::size_t before = ids.size();
  bool cut = chars <= options_.max_chars;
  for (std::size_t begin = 0; cut && begin < word.size();) {
    std::uint32_t node = begin == 0 ? Trie::kRoot : inside_;
    std::int32_t best = -1;
    std::size_t best_end = begin;
    for (std::size_t at = begin; at < word.size() && node != Trie::kNowhere;) {
      node = trie_.next(node, word[at]);
      if (node == Trie::kNowhere) break;
      ++at;
      if (trie_.value(node) < 0) continue;
      best = trie_.value(node);
      best_end = at;
    }
    cut = best >= 0;
    if (cut) ids.push_back(best);
    begin = best_end;
  }
  if (cut) return;
  ids.resize(before);
  ids.push_back(options_.unk_id);
}

}  // namespace quern::text
