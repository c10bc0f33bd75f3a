// Text to token ids and back: byte-level BPE from GGUF metadata or tokenizer.json. Immutable after
// construction; any thread.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "quern/types.h"

namespace quern::text {

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
  virtual std::vector<std::int32_t> encode(std::span<const PromptPiece> pieces) const = 0;
  std::vector<std::int32_t> encode(std::string_view text, bool trusted) const;

  // The bytes of a token; "" for control tokens, ids without a token and ids out of range.
  virtual std::string_view bytes(std::int32_t id) const = 0;
  virtual bool is_control(std::int32_t id) const = 0;
  // The id whose stored text is exactly `text`, or -1.
  virtual std::int32_t id_of(std::string_view text) const = 0;
  virtual std::int32_t size() const = 0;  // ids are below this
};

// Valid UTF-8 of the ids, control tokens left out; a cut character at the end becomes U+FFFD.
std::string decode(const Tokenizer& tokenizer, std::span<const std::int32_t> ids);

}  // namespace quern::text
