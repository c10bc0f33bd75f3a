#include "text/bpe.h"

#include <algorithm>
#include <functional>

#include "base/error.h"
#include "text/byte_alphabet.h"

namespace quern::text {
namespace {

// Positions are 32 bits; a longer word is cut, as memory for its symbols would be the limit anyway.
constexpr std::size_t kMaxWord = std::size_t{1} << 30;

std::uint64_t pair_key(std::int32_t left, std::int32_t right) {
  return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
         static_cast<std::uint32_t>(right);
}

}  // namespace

Bpe::Bpe(const Vocabulary& vocabulary, std::vector<Merge> merges, bool whole_words)
    : merges_(std::move(merges)) {
  byte_ids_.fill(-1);
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    const TokenKind kind = vocabulary.kind(id);
    const std::string_view bytes = vocabulary.bytes(id);
    if (kind == TokenKind::kByte && byte_ids_[static_cast<std::uint8_t>(bytes[0])] < 0) {
      byte_ids_[static_cast<std::uint8_t>(bytes[0])] = id;
    }
    if (whole_words && kind == TokenKind::kNormal) words_.emplace(bytes, id);
  }
  for (int byte = 0; byte < 256; ++byte) {
    const std::int32_t id = vocabulary.id_of(alphabet_of(static_cast<std::uint8_t>(byte)));
    const TokenKind kind = vocabulary.kind(id);
    if (kind == TokenKind::kNormal || kind == TokenKind::kUserDefined) {
      byte_ids_[static_cast<std::size_t>(byte)] = id;
    }
  }
  for (std::size_t rank = 0; rank < merges_.size(); ++rank) {
    const auto& [left, right, result] = merges_[rank];
    if (result < 0) continue;
    if (!ranks_.insert(pair_key(left, right), static_cast<std::uint32_t>(rank))) {
      vocabulary.fail(fmt::format("the merge of {} and {} stands twice",
                                  shown(vocabulary.text(left)), shown(vocabulary.text(right))));
    }
  }
}

void Bpe::encode(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const {
  if (const auto whole = words_.find(word); whole != words_.end()) {
    ids.push_back(whole->second);
    return;
  }
  for (; !word.empty(); word.remove_prefix(std::min(word.size(), kMaxWord))) {
    const std::string_view part = word.substr(0, kMaxWord);
    scratch.symbols.clear();
    for (const char c : part) {
      const std::int32_t id = byte_ids_[static_cast<std::uint8_t>(c)];
      const auto at = static_cast<std::int32_t>(scratch.symbols.size());
      if (id >= 0) scratch.symbols.push_back({id, at - 1, at + 1});
    }
    if (scratch.symbols.empty()) continue;
    scratch.symbols.back().next = -1;
    merge_all(scratch);
    for (std::int32_t i = 0; i >= 0; i = scratch.symbols[static_cast<std::size_t>(i)].next) {
      ids.push_back(scratch.symbols[static_cast<std::size_t>(i)].id);
    }
  }
}

void Bpe::push(Scratch& scratch, std::int32_t left, std::int32_t right, bool keep_heap) const {
  if (left < 0 || right < 0) return;
  const std::int32_t left_id = scratch.symbols[static_cast<std::size_t>(left)].id;
  const std::int32_t right_id = scratch.symbols[static_cast<std::size_t>(right)].id;
  const std::uint32_t* rank = ranks_.find(pair_key(left_id, right_id));
  if (rank == nullptr) return;
  scratch.queue.push_back(std::uint64_t{*rank} << 32 | static_cast<std::uint32_t>(left));
  if (keep_heap) std::push_heap(scratch.queue.begin(), scratch.queue.end(), std::greater<>());
}

void Bpe::merge_all(Scratch& scratch) const {
  std::vector<Scratch::Symbol>& symbols = scratch.symbols;
  std::vector<std::uint64_t>& queue = scratch.queue;
  queue.clear();
  const auto count = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 1; i < count; ++i) push(scratch, i - 1, i, false);
  std::make_heap(queue.begin(), queue.end(), std::greater<>());
  while (!queue.empty()) {
    const Merge& merge = merges_[static_cast<std::size_t>(queue.front() >> 32)];
    const auto position = static_cast<std::int32_t>(queue.front() & 0xFFFFFFFFu);
    std::pop_heap(queue.begin(), queue.end(), std::greater<>());
    queue.pop_back();
    // A symbol only ever grows, so that ids which still fit mean the very pair that was queued.
    Scratch::Symbol& left = symbols[static_cast<std::size_t>(position)];
    if (left.id != merge.left || left.next < 0) continue;
    Scratch::Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    if (right.id != merge.right) continue;
    left.id = merge.result;
    right.id = -1;
    left.next = right.next;
    if (left.next >= 0) symbols[static_cast<std::size_t>(left.next)].previous = position;
    push(scratch, left.previous, position, true);
    push(scratch, position, left.next, true);
  }
}

}  // namespace quern::text
