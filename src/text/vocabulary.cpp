#include "text/vocabulary.h"

#include <algorithm>
#include <charconv>

#include "base/error.h"
#include "base/errors/text.h"

namespace quern::text {
namespace {

// More rows than any model has; bounds what one absurd id can make us allocate.
constexpr std::int64_t kMaxIds = std::int64_t{1} << 21;
constexpr std::size_t kMaxLetters = std::size_t{1} << 30;

}  // namespace

int byte_named(std::string_view text) {
  unsigned value = 0;
  if (text.size() != 6 || !text.starts_with("<0x") || text[5] != '>') return -1;
  const auto [end, error] = std::from_chars(text.data() + 3, text.data() + 5, value, 16);
  return error != std::errc() || end != text.data() + 5 ? -1 : static_cast<int>(value);
}

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
  if (token.kind != TokenKind::kNone) {
    fail(fmt::format("id {} stands for both {} and {}", id,
                     shown(this->text(static_cast<std::int32_t>(id))), shown(text)));
  }
  if (text.size() > kMaxLetters - letters_.size()) fail("the texts of all tokens are too long");
  if (!ids_.insert(text, static_cast<std::int32_t>(id))) {
    fail(fmt::format("token {} has two ids, {} and {}", shown(text), id_of(text), id));
  }
  token.begin = static_cast<std::uint32_t>(letters_.size());
  token.length = static_cast<std::uint32_t>(text.size());
  letters_ += text;
  set_kind(static_cast<std::int32_t>(id), kind);
}

void Vocabulary::set_kind(std::int32_t id, TokenKind kind) {
  if (kind == TokenKind::kByte && byte_named(text(id)) < 0) {
    fail(fmt::format("byte token {} is not of the form <0xAB>", shown(text(id))));
  }
  tokens_[static_cast<std::size_t>(id)].kind = kind;
}

Merge Vocabulary::merge_of(std::string_view left, std::string_view right, std::size_t rank,
                           bool skip_missing) const {
  Merge merge{id_of(left), id_of(right), id_of(std::string(left).append(right)),
              static_cast<std::uint32_t>(rank)};
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

std::int32_t Vocabulary::id_of(std::string_view text) const { return ids_.find(text); }

std::string_view Vocabulary::text(std::int32_t id) const {
  if (id < 0 || id >= size()) return {};
  const Token& token = tokens_[static_cast<std::size_t>(id)];
  return std::string_view(letters_).substr(token.begin, token.length);
}

TokenKind Vocabulary::kind(std::int32_t id) const {
  return id < 0 || id >= size() ? TokenKind::kNone : tokens_[static_cast<std::size_t>(id)].kind;
}

}  // namespace quern::text
