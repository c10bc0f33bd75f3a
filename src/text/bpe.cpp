#include "text/bpe.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "text/byte_alphabet.h"
#include "text/utf8.h"

namespace quern::text {
namespace {

// Positions are 32 bits; a longer word is cut, as memory for its symbols would be the limit anyway.
constexpr std::size_t kMaxPart = std::size_t{1} << 30;
// Up to so many symbols scanning for the lowest rank beats a queue.
constexpr std::size_t kShort = 48;
constexpr std::uint64_t kNoPair = ~std::uint64_t{0};

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

std::uint64_t join_key(char32_t left, char32_t right) {
  return static_cast<std::uint64_t>(left) << 32 | right;
}

bool is_piece(TokenKind kind) {
  return kind == TokenKind::kNormal || kind == TokenKind::kUserDefined;
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, const std::vector<Merge>& merges, BpeOptions options)
    : options_(options) {
  read_symbols(vocabulary);
  for (const Merge& merge : merges) {
    if (merge.result < 0) continue;
    if (!pairs_.insert(pair_key(merge.left, merge.right), Result{merge.rank, merge.result})) {
      vocabulary.fail(fmt::format("the merge of {} and {} stands twice",
                                  shown(vocabulary.text(merge.left)),
                                  shown(vocabulary.text(merge.right))));
    }
  }
  if (!options_.byte_level) read_joins(vocabulary, merges);
  read_words(vocabulary);
}

void Bpe::read_symbols(const Vocabulary& vocabulary) {
  byte_ids_.fill(-1);
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenKind kind = vocabulary.kind(id);
    const std::string_view text = vocabulary.text(id);
    // A byte-level vocabulary may hold single bytes in this form too.
    const bool names_byte = options_.byte_level ? kind == TokenKind::kByte
                                                : options_.byte_fallback && byte_named(text) >= 0;
    if (names_byte) {
      std::int32_t& slot = byte_ids_[static_cast<std::size_t>(byte_named(text))];
      if (slot < 0) slot = id;
    }
    if (options_.byte_level || !is_piece(kind) || text.empty()) continue;
    const Utf8Step step = utf8_step(text);
    if (step.kind != Utf8Kind::kValid || step.length != text.size()) continue;
    std::size_t at = 0;
    char_ids_.insert(next_char(text, at), id);
  }
  for (int byte = 0; options_.byte_level && byte < 256; ++byte) {
    const std::int32_t id = vocabulary.id_of(alphabet_of(static_cast<std::uint8_t>(byte)));
    if (is_piece(vocabulary.kind(id))) byte_ids_[static_cast<std::size_t>(byte)] = id;
  }
}

// Two neighbours that stand side by side in no token can never be merged across, so that a text of
// many words, which SentencePiece does not split, is cut there.
void Bpe::read_joins(const Vocabulary& vocabulary, const std::vector<Merge>& merges) {
  for (const Merge& merge : merges) {
    const std::string_view text = vocabulary.text(merge.result);
    for (const std::int32_t id : {merge.left, merge.right}) {
      if (options_.byte_fallback && byte_named(vocabulary.text(id)) >= 0) may_cut_ = false;
    }
    char32_t previous = 0;
    for (std::size_t at = 0; at < text.size();) {
      if (utf8_step(text.substr(at)).kind != Utf8Kind::kValid) break;
      const bool first = at == 0;
      const char32_t code = next_char(text, at);
      if (!first) joins_.insert(join_key(previous, code), 1);
      previous = code;
    }
  }
}

void Bpe::read_words(const Vocabulary& vocabulary) {
  Scratch scratch;
  std::vector<std::int32_t> ids;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenKind kind = vocabulary.kind(id);
    if (!is_piece(kind)) continue;
    std::string word(vocabulary.text(id));
    if (options_.byte_level) {
      auto bytes = from_alphabet(word);
      if (!bytes) continue;
      word = std::move(*bytes);
    }
    ids.clear();
    if (options_.whole_words) {
      if (kind == TokenKind::kNormal) words_.insert(word, id);
      continue;
    }
    if (!options_.byte_level && replace_invalid(word) != word) continue;
    encode_joined(word, scratch, ids);
    if (ids.size() == 1 && ids[0] == id) words_.insert(word, id);
  }
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  if (const std::int32_t whole = words_.find(word); whole >= 0) {
    ids.push_back(whole);
    return;
  }
  if (!options_.byte_level) {
    encode_part(word, scratch, ids);
    return;
  }
  for (; !word.empty(); word.remove_prefix(std::min(word.size(), kMaxPart))) {
    encode_joined(word.substr(0, kMaxPart), scratch, ids);
  }
}

// Cuts at characters that no merge can join.
void Bpe::encode_part(std::string_view part, Scratch& scratch,
                      std::vector<std::int32_t>& ids) const {
  std::size_t begin = 0, at = 0;
  char32_t previous = 0;
  const auto add = [&](std::size_t end) {
    const std::string_view piece = part.substr(begin, end - begin);
    const std::int32_t whole = options_.whole_words ? -1 : words_.find(piece);
    if (whole >= 0) {
      ids.push_back(whole);
    } else {
      encode_joined(piece, scratch, ids);
    }
    begin = end;
  };
  while (at < part.size()) {
    const std::size_t here = at;
    const char32_t code = next_char(part, at);
    // A run of unknown characters may become one token, so it is not cut.
    if (here > begin &&
        (here - begin >= kMaxPart ||
         (may_cut_ && joins_.find(join_key(previous, code)) == nullptr &&
          (char_ids_.find(code) != nullptr || char_ids_.find(previous) != nullptr)))) {
      add(here);
    }
    previous = code;
  }
  if (begin < part.size()) add(part.size());
}

void Bpe::char_symbols(std::string_view part, std::vector<std::int32_t>& ids) const {
  bool unknown = false;  // the last symbol stands for unknown characters
  for (std::size_t at = 0; at < part.size();) {
    const std::size_t begin = at;
    if (const std::int32_t* id = char_ids_.find(next_char(part, at)); id != nullptr) {
      ids.push_back(*id);
      unknown = false;
      continue;
    }
    bool all = options_.byte_fallback;
    for (std::size_t i = begin; all && i < at; ++i) {
      all = byte_ids_[static_cast<std::uint8_t>(part[i])] >= 0;
    }
    if (all) {
      for (std::size_t i = begin; i < at; ++i) {
        ids.push_back(byte_ids_[static_cast<std::uint8_t>(part[i])]);
      }
      unknown = false;
    } else if (options_.unk_id >= 0) {
      if (!(unknown && options_.fuse_unk)) ids.push_back(options_.unk_id);
      unknown = true;
    }
  }
}

void Bpe::encode_joined(std::string_view part, Scratch& scratch,
                        std::vector<std::int32_t>& ids) const {
  scratch.ids.clear();
  if (options_.byte_level) {
    bool unknown = false;
    for (const char c : part) {
      const std::int32_t id = byte_ids_[static_cast<std::uint8_t>(c)];
      if (id >= 0) {
        scratch.ids.push_back(id);
      } else if (options_.unk_id >= 0 && !(unknown && options_.fuse_unk)) {
        scratch.ids.push_back(options_.unk_id);
      }
      unknown = id < 0;
    }
  } else {
    char_symbols(part, scratch.ids);
  }
  if (scratch.ids.size() <= kShort) {
    merge_short(scratch);
  } else {
    merge_long(scratch);
  }
  ids.insert(ids.end(), scratch.ids.begin(), scratch.ids.end());
}

const Bpe::Result* Bpe::pair(std::int32_t left, std::int32_t right) const {
  return pairs_.find(pair_key(left, right));
}

void Bpe::merge_short(Scratch& scratch) const {
  std::vector<std::int32_t>& ids = scratch.ids;
  if (ids.size() < 2) return;
  // rank << 32 | result of each symbol with its right neighbour
  std::vector<std::uint64_t>& ranks = scratch.ranks;
  const auto rank_at = [&](std::size_t i) {
    const Result* result = pair(ids[i], ids[i + 1]);
    return result == nullptr
               ? kNoPair
               : std::uint64_t{result->rank} << 32 | static_cast<std::uint32_t>(result->id);
  };
  ranks.resize(ids.size() - 1);
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i] = rank_at(i);
  while (!ranks.empty()) {
    std::size_t best = 0;
    for (std::size_t i = 1; i < ranks.size(); ++i) {
      if (ranks[i] >> 32 < ranks[best] >> 32) best = i;
    }
    scratch.steps += static_cast<std::int64_t>(ranks.size());
    if (ranks[best] == kNoPair) break;
    ids[best] = static_cast<std::int32_t>(ranks[best] & 0xFFFFFFFFu);
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    ranks.erase(ranks.begin() + static_cast<std::ptrdiff_t>(best));
    if (best < ranks.size()) ranks[best] = rank_at(best);
    if (best > 0) ranks[best - 1] = rank_at(best - 1);
  }
}

void Bpe::push(Scratch& scratch, std::int32_t left, std::int32_t right, bool keep_heap) const {
  if (left < 0 || right < 0) return;
  const Result* result = pair(scratch.symbols[static_cast<std::size_t>(left)].id,
                              scratch.symbols[static_cast<std::size_t>(right)].id);
  if (result == nullptr) return;
  scratch.queue.push_back(std::uint64_t{result->rank} << 32 | static_cast<std::uint32_t>(left));
  if (keep_heap) std::push_heap(scratch.queue.begin(), scratch.queue.end(), std::greater<>());
}

void Bpe::merge_long(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  std::vector<std::uint64_t>& queue = scratch.queue;
  symbols.clear();
  queue.clear();
  const auto count = static_cast<std::int32_t>(scratch.ids.size());
  symbols.reserve(scratch.ids.size());
  for (std::int32_t i = 0; i < count; ++i) {
    symbols.push_back({scratch.ids[static_cast<std::size_t>(i)], i - 1, i + 1});
  }
  symbols.back().next = -1;
  for (std::int32_t i = 1; i < count; ++i) push(scratch, i - 1, i, false);
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    const auto rank = static_cast<std::uint32_t>(queue.front() >> 32);
    const auto position = static_cast<std::int32_t>(queue.front() & 0xFFFFFFFFu);
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    queue.pop_back();
    ++scratch.steps;
    // What was queued may be stale; the pair that stands there now counts if it has that rank.
    Scratch::Symbol& left = symbols[static_cast<std::size_t>(position)];
    if (left.id < 0 || left.next < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    const Result* result = pair(left.id, right.id);
    if (result == nullptr || result->rank != rank) continue;
    left.id = result->id;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = position;
    push(scratch, left.previous, position, true);
    push(scratch, position, left.next, true);
  }
  scratch.ids.clear();
  for (std::int32_t i = 0; i >= 0; i = symbols[static_cast<std::size_t>(i)].next) {
    scratch.ids.push_back(symbols[static_cast<std::size_t>(i)].id);
  }
}

}  // namespace quern::text
