// The Tokenizer of every file format: added tokens, then the normalizer, words, the model, and what
// the file puts around a text. Immutable; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/added_tokens.h"
#include "text/bpe.h"
#include "text/normalizer.h"
#include "text/pre_tokenizer.h"
#include "text/tokenizer.h"
#include "text/tokenizer_spec.h"
#include "text/unigram.h"
#include "text/vocabulary.h"
#include "text/wordpiece.h"

namespace quern::text {

class PipelineTokenizer : public Tokenizer {
 public:
  // Throws: kTokenizerInvalid where a token to put around texts does not exist, and what the models
  // throw.
  explicit PipelineTokenizer(TokenizerSpec spec);

  using Tokenizer::encode;
  // Of byte-level models, bytes that are not UTF-8 end a word and are encoded as they are; bytes
  // that the vocabulary has no token for are left out. Other models read U+FFFD for each maximal
  // sequence of such bytes.
  std::vector<std::int32_t> encode(std::span<const PromptPiece> pieces,
                                   EncodeOptions options) const override;
  TokenText text(std::int32_t id) const override;
  bool is_control(std::int32_t id) const override {
    return vocabulary_.kind(id) == TokenKind::kControl;
  }
  std::int32_t id_of(std::string_view text) const override { return vocabulary_.id_of(text); }
  std::int32_t size() const override { return vocabulary_.size(); }
  DecodeRules decode_rules() const override { return rules_; }

 private:
  struct Scratch;
  using Model = std::variant<Bpe, Unigram, WordPiece>;

  static Model make_model(const Vocabulary& vocabulary, const ModelSpec& spec);
  void write_texts(const Decoder& decoder, const std::string& unknown);
  std::string normalize(std::string_view text, Scratch& scratch) const;
  void encode_segment(Scratch& scratch, Span span, std::vector<std::int32_t>& ids) const;
  void encode_normal(std::string_view text, bool begins, const std::vector<Span>& trusted,
                     Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void encode_words(std::string_view text, bool begins, Scratch& scratch,
                    std::vector<std::int32_t>& ids) const;
  void encode_word(std::string_view word, Scratch& scratch, std::vector<std::int32_t>& ids) const;
  void put_around(EncodeOptions options, std::vector<std::int32_t>& ids) const;

  Vocabulary vocabulary_;
  Normalizer normalizer_;
  AddedTokens first_, second_;  // second_: the tokens marked `normalized`
  AddedTokens mixed_;           // of second_ the special ones, where a normalizer changes texts
  PreTokenizer pre_tokenizer_;
  Model model_;
  bool byte_level_;
  std::vector<std::int32_t> prefix_, suffix_;
  DecodeRules rules_;
  // What tokens write: parts of letters_ by id.
  struct Written {
    std::uint32_t inside = 0, inside_size = 0, first = 0, first_size = 0;
  };
  std::string letters_;
  std::vector<Written> written_;
};

}  // namespace quern::text
