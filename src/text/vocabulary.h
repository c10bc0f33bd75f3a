// The tokens by id, with every check that outside data needs: ids in range, no id and no text
// twice, merges of known pieces. Filled by the readers of the file formats, then owned, unchanging,
// by the tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/token_table.h"

namespace quern::text {

enum class TokenKind : std::uint8_t {
  kNone,         // an id without a token
  kNormal,       // made by the model
  kUserDefined,  // found in any text before the model sees it
  kControl,      // found in trusted text only; writes nothing
  kUnknown,      // stands for what has no token; never found in text
  kUnused,       // has a text but is never made and writes nothing
  kByte,         // "<0xAB>"
};

struct Merge {
  std::int32_t left, right, result;  // result -1: the merge is left out
  std::uint32_t rank;                // the lowest goes first, of equal ones the leftmost
};

class Vocabulary {
 public:
  // `rows`: rows of the model's embedding; ids stay below it. `origin` is for messages.
  Vocabulary(std::string origin, std::int64_t rows);
  Vocabulary(Vocabulary&&) = default;
  Vocabulary& operator=(Vocabulary&&) = delete;

  // Throws: kTokenizerInvalid for an id out of range, or an id or a text that is there already.
  void add(std::string_view text, std::int64_t id, TokenKind kind);
  // Makes the token another kind. Requires: id has a token.
  void set_kind(std::int32_t id, TokenKind kind);

  // The ids of a merge. Throws: kTokenizerInvalid where a piece is unknown, where the result makes
  // a control token out of ordinary text, and, unless `skip_missing`, where the result is unknown;
  // with it such a merge has result -1.
  Merge merge_of(std::string_view left, std::string_view right, std::size_t rank,
                 bool skip_missing) const;

  // The id of exactly that stored text, or -1.
  std::int32_t id_of(std::string_view text) const;
  std::string_view text(std::int32_t id) const;  // as stored; "" for ids without a token
  TokenKind kind(std::int32_t id) const;
  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  const std::string& origin() const { return origin_; }

  // Throws kTokenizerInvalid with the vocabulary's origin.
  [[noreturn]] void fail(std::string what) const;

 private:
  struct Token {
    std::uint32_t begin = 0, length = 0;  // of its text in letters_
    TokenKind kind = TokenKind::kNone;
  };

  std::string origin_;
  std::int64_t rows_;
  TokenTable ids_;
  std::string letters_;
  std::vector<Token> tokens_;
};

// The byte that "<0xAB>" names, or -1.
int byte_named(std::string_view text);

// `text` cut to a length fit for a message.
std::string shown(std::string_view text);

}  // namespace quern::text
