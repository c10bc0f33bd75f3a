#include "text/vocabulary.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "base/error.h"
#include "base/errors/text.h"
#include "text/byte_alphabet.h"

namespace quern::text {
namespace {

// More rows than any model has; bounds what one absurd id can make us allocate.
constexpr std::int64_t kMaxIds = std::int64_t{1} << 21;

// The byte that "<0xAB>" names.
std::optional<char> byte_named(std::string_view text) {
  unsigned value = 0;
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  if (error != std::errc() || end != text.data() + 5) return std::nullopt;
  return static_cast<char>(value);
}

}  // namespace

std::string shown(std::string_view text) {
  constexpr std::size_t kShown = 60;
  if (text.size() <= kShown) return fmt::format("'{}'", text);
  return fmt::format("'{}…' ({} bytes)", text.substr(0, kShown), text.size());
}

Vocabulary::Vocabulary(std::string origin, std::int64_t rows)
    : origin_(std::move(origin)), rows_(std::min(rows, kMaxIds)) {}

void Vocabulary::fail(std::string what) const {
  throw Error(errors::kTokenizerInvalid, {{"origin", origin_}, {"what", what}});
}

void Vocabulary::add(std::string_view text, std::int64_t id, TokenKind kind) {
  if (id < 0 || id >= rows_) {
    fail(fmt::format("token {} has id {}, but the model has {} vocabulary rows", shown(text), id,
                     rows_));
  }
  const auto index = static_cast<std::size_t>(id);
  if (index >= tokens_.size()) tokens_.resize(index + 1);
  Token& token = tokens_[index];
  if (token.text != nullptr) {
    fail(fmt::format("id {} stands for both {} and {}", id, shown(*token.text), shown(text)));
  }
  const auto [entry, fresh] = ids_.emplace(text, static_cast<std::int32_t>(id));
  if (!fresh) {
    fail(fmt::format("token {} has two ids, {} and {}", shown(text), entry->second, id));
  }
  token.text = &entry->first;
  set_kind(static_cast<std::int32_t>(id), kind);
}

void Vocabulary::set_kind(std::int32_t id, TokenKind kind) {
  Token& token = tokens_[static_cast<std::size_t>(id)];
  token.kind = kind;
  token.bytes.clear();
  if (kind == TokenKind::kNormal) {
    // A text with characters outside the alphabet can be no BPE piece; it writes itself.
    token.bytes = from_alphabet(*token.text).value_or(*token.text);
  } else if (kind == TokenKind::kUserDefined) {
    token.bytes = *token.text;
  } else if (kind == TokenKind::kByte) {
    const std::optional<char> byte = byte_named(*token.text);
    if (!byte) fail(fmt::format("byte token {} is not of the form <0xAB>", shown(*token.text)));
    token.bytes = std::string(1, *byte);
  }
}

Merge Vocabulary::merge_of(std::string_view left, std::string_view right, bool skip_missing) const {
  Merge merge{id_of(left), id_of(right), id_of(std::string(left).append(right))};
  for (const auto& [piece, id] : {std::pair(left, merge.left), std::pair(right, merge.right)}) {
    if (id < 0) {
      fail(fmt::format("the merge of {} and {} needs the unknown token {}", shown(left),
                       shown(right), shown(piece)));
    }
  }
  if (merge.result < 0 && !skip_missing) {
    fail(fmt::format("the merge of {} and {} gives an unknown token", shown(left), shown(right)));
  }
  for (const std::int32_t id : {merge.left, merge.right, merge.result}) {
    if (kind(id) == TokenKind::kControl) {
      fail(fmt::format("the merge of {} and {} uses the control token {}", shown(left),
                       shown(right), shown(text(id))));
    }
  }
  return merge;
}

std::int32_t Vocabulary::id_of(std::string_view text) const {
  const auto entry = ids_.find(text);
  return entry == ids_.end() ? -1 : entry->second;
}

std::string_view Vocabulary::bytes(std::int32_t id) const {
  return id < 0 || id >= size() ? std::string_view() : tokens_[static_cast<std::size_t>(id)].bytes;
}

std::string_view Vocabulary::text(std::int32_t id) const {
  if (id < 0 || id >= size() || tokens_[static_cast<std::size_t>(id)].text == nullptr) return {};
  return *tokens_[static_cast<std::size_t>(id)].text;
}

TokenKind Vocabulary::kind(std::int32_t id) const {
  return id < 0 || id >= size() ? TokenKind::kNone : tokens_[static_cast<std::size_t>(id)].kind;
}

}  // namespace quern::text
