// The Tokenizer of byte-level BPE models: added tokens, then words, then merges.
// Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"
#include "text/vocabulary.h"

namespace quern::text {

class BpeTokenizer : public Tokenizer {
 public:
  // Throws: kTokenizerInvalid where the token to put first does not exist.
  explicit BpeTokenizer(TokenizerSpec spec);

  using Tokenizer::encode;
  // Bytes that are not UTF-8 end a word and are encoded as they are; bytes that the vocabulary has
  // no token for are left out.
  std::vector<std::int32_t> encode(std::span<const PromptPiece> pieces,
                                   bool add_special_tokens) const override;
  TokenText text(std::int32_t id) const override;
  bool is_control(std::int32_t id) const override {
    return vocabulary_.kind(id) == TokenKind::kControl;
  }
  std::int32_t id_of(std::string_view text) const override { return vocabulary_.id_of(text); }
  std::int32_t size() const override { return vocabulary_.size(); }

 private:
  struct Scratch;

  void encode_text(std::string_view text, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void encode_words(std::string_view text, Scratch& scratch, std::vector<std::int32_t>& ids) const;

  Vocabulary vocabulary_;
  AddedTokens first_, second_;  // second_: the tokens marked `normalized`
  PreTokenizer pre_tokenizer_;
  Bpe bpe_;
  std::int32_t bos_id_;
};

}  // namespace quern::text
