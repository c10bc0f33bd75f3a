// What the readers of several file formats share.
#include "text/tokenizer_spec.h"

#include <algorithm>
#include <map>

#include "base/error.h"

namespace quern::text {

void add_tokens(const checkpoint::TokenizerSource& source, TokenizerSpec& spec) {
  for (const checkpoint::AddedTokenSource& item : source.added_tokens) {
    AddedToken token;
    token.text = item.content;
    token.special = item.special;
    token.lstrip = item.lstrip;
    token.rstrip = item.rstrip;
    token.single_word = item.single_word;
    token.normalized = item.normalized;
    token.verbatim = true;
    const TokenKind kind = token.special ? TokenKind::kControl : TokenKind::kUserDefined;
    token.id = spec.vocabulary.id_of(token.text);
    if (token.id < 0) {
      if (spec.vocabulary.kind(static_cast<std::int32_t>(item.id)) != TokenKind::kNone) continue;
      spec.vocabulary.add(token.text, item.id, kind);
      token.id = static_cast<std::int32_t>(item.id);
    } else if (spec.vocabulary.kind(token.id) == TokenKind::kUnknown) {
      continue;
    } else {
      spec.vocabulary.set_kind(token.id, kind);
      std::erase_if(spec.added_tokens, [&](const AddedToken& old) { return old.id == token.id; });
    }
    spec.added_tokens.push_back(std::move(token));
  }
}

void put_around(const checkpoint::TokenizerSource& source, TokenizerSpec& spec) {
  const auto id_of = [&](std::int32_t id, const std::optional<std::string>& text) {
    const std::int32_t named = text ? spec.vocabulary.id_of(*text) : -1;
    return named >= 0 ? named : id;
  };
  const std::int32_t bos = id_of(source.bos_token_id, source.bos_token);
  const std::int32_t eos = id_of(source.eos_token_id, source.eos_token);
  const bool begins = !spec.prefix.empty() && spec.prefix.front() == bos;
  if (source.add_bos && bos != -1 && !begins) spec.prefix.insert(spec.prefix.begin(), bos);
  const bool ends = !spec.suffix.empty() && spec.suffix.back() == eos;
  if (source.add_eos && eos != -1 && !ends) spec.suffix.push_back(eos);
}

std::vector<Merge> implied_merges(const Vocabulary& vocabulary, const std::vector<double>& scores) {
  constexpr std::size_t kMaxMerges = std::size_t{1} << 25;
  constexpr std::size_t kMaxToken = 4096;
  const auto is_piece = [&](std::int32_t id) {
    return vocabulary.kind(id) == TokenKind::kNormal ||
           vocabulary.kind(id) == TokenKind::kUserDefined;
  };
  std::vector<double> distinct(scores);
  std::sort(distinct.begin(), distinct.end(), std::greater<>());
  distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
  std::vector<Merge> merges;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.kind(id) != TokenKind::kNormal) continue;
    const std::string_view text = vocabulary.text(id);
    if (text.size() > kMaxToken) {
      vocabulary.fail(fmt::format("token {} is longer than {} bytes", id, kMaxToken));
    }
    const double score = static_cast<std::size_t>(id) < scores.size()
                             ? scores[static_cast<std::size_t>(id)]
                             : distinct.back();
    const auto rank = std::lower_bound(distinct.begin(), distinct.end(), score, std::greater<>()) -
                      distinct.begin();
    for (std::size_t cut = 1; cut < text.size(); ++cut) {
      if ((text[cut] & 0xC0) == 0x80) continue;
      const std::int32_t left = vocabulary.id_of(text.substr(0, cut));
      if (left < 0 || !is_piece(left)) continue;
      const std::int32_t right = vocabulary.id_of(text.substr(cut));
      if (right < 0 || !is_piece(right)) continue;
      merges.push_back({left, right, id, static_cast<std::uint32_t>(rank)});
      if (merges.size() > kMaxMerges) vocabulary.fail("the tokens imply too many merges");
    }
  }
  return merges;
}

}  // namespace quern::text
