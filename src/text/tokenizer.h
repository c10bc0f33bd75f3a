// Text to token ids and back, whatever the file format: tokenizer.json, SentencePiece's
// tokenizer.model, tekken.json, tiktoken files, GGUF metadata. Immutable after construction; any
// thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "quern/types.h"
#include "text/utf8_decoder.h"

namespace quern::text {

// What a token writes, as bytes: a character may be spread over several tokens. `first` is what it
// writes as the first token of a text, where some tokenizers leave out the blank that they put
// before it, or the one that parts it from the word before.
struct TokenText {
  std::string_view inside, first;
  bool exists = false;  // the id has a token
};

// What is done to the text of all tokens together.
struct DecodeRules {
  std::string strip;  // one character, up to that many of which are taken off the ends
  std::int32_t strip_begin = 0, strip_end = 0;
  bool begins_until_text = false;  // tokens count as first until one has written something
  Utf8Decoder::Replace replace = Utf8Decoder::Replace::kMaximalSequences;
};

struct DecodeOptions {
  bool skip_special_tokens = true;  // control tokens write nothing
  std::span<const std::int32_t> shown{};  // … but these, ordered; must outlive the decoding
  // Else a control token behind another writes no blanks before it.
  bool spaces_between_special_tokens = true;
  bool begins = true;  // the ids begin a text; false: they go on with one, as an answer does
};

struct EncodeOptions {
  bool add_special_tokens = true;  // put what the file puts around a text (BOS, EOS)
  bool once = true;                // but not where the text already has it at that end
};

class Tokenizer {
 public:
  // `vocab_rows`: rows of the model's embedding; ids at or past it are refused, and rows without a
  // token are never produced by encode().
  // Throws: kTokenizerUnsupported, kTokenizerInvalid (catalog/entries/text).
  static std::unique_ptr<Tokenizer> create(const checkpoint::TokenizerSource& source,
                                           std::int64_t vocab_rows);
  virtual ~Tokenizer() = default;

  // The pieces are one text: words are split across their borders. Control tokens are recognised
  // only where they lie in trusted pieces.
  virtual std::vector<std::int32_t> encode(std::span<const PromptPiece> pieces,
                                           EncodeOptions options) const = 0;
  std::vector<std::int32_t> encode(std::span<const PromptPiece> pieces) const {
    return encode(pieces, {});
  }
  std::vector<std::int32_t> encode(std::string_view text, bool trusted,
                                   EncodeOptions options = {}) const;

  // What a token writes: nothing for ids without a token and ids out of range.
  virtual TokenText text(std::int32_t id) const = 0;
  // What it writes within a text; "" for control tokens.
  std::string_view bytes(std::int32_t id) const;
  virtual bool is_control(std::int32_t id) const = 0;
  // The id whose stored text is exactly `text`, or -1.
  virtual std::int32_t id_of(std::string_view text) const = 0;
  virtual std::int32_t size() const = 0;  // ids are below this
  virtual DecodeRules decode_rules() const { return {}; }
};

// Valid UTF-8 of the ids; a cut character at the end becomes U+FFFD.
std::string decode(const Tokenizer& tokenizer, std::span<const std::int32_t> ids,
                   DecodeOptions options = {});

}  // namespace quern::text
