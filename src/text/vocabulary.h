// The tokens of a byte-level BPE by id, with every check that outside data needs: ids in range,
// no id and no text twice, merges of known pieces. Filled by tokenizer_json and tokenizer_gguf,
// then owned, unchanging, by the tokenizer.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace quern::text {

enum class TokenKind : std::uint8_t {
  kNone,         // an id without a token
  kNormal,       // text in the byte alphabet
  kUserDefined,  // plain text, found in any text before BPE
  kControl,      // plain text, found in trusted text only; writes nothing
  kUnused,       // has a text but is never made and writes nothing
  kByte,         // "<0xAB>"
};

struct Merge {
  std::int32_t left, right, result;
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
  Merge merge_of(std::string_view left, std::string_view right, bool skip_missing) const;

  // The id of exactly that stored text, or -1.
  std::int32_t id_of(std::string_view text) const;
  // What the token writes; "" for control and unused tokens and for ids without one.
  std::string_view bytes(std::int32_t id) const;
  std::string_view text(std::int32_t id) const;  // as stored; "" for ids without a token
  TokenKind kind(std::int32_t id) const;
  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  const std::string& origin() const { return origin_; }

  // Throws kTokenizerInvalid with the vocabulary's origin.
  [[noreturn]] void fail(std::string what) const;

 private:
  struct Token {
    const std::string* text = nullptr;  // a key of ids_
    std::string bytes;
    TokenKind kind = TokenKind::kNone;
  };
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };

  std::string origin_;
  std::int64_t rows_;
  std::unordered_map<std::string, std::int32_t, Hash, std::equal_to<>> ids_;
  std::vector<Token> tokens_;
};

// `text` cut to a length fit for a message.
std::string shown(std::string_view text);

}  // namespace quern::text
