#include "text/tokenizer.h"

#include <new>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/text.h"
#include "text/bpe_tokenizer.h"

namespace quern::text {

std::unique_ptr<Tokenizer> Tokenizer::create(const checkpoint::TokenizerSource& source,
                                             std::int64_t vocab_rows) {
  try {
    if (!source.tokenizer_json.empty()) {
      return std::make_unique<BpeTokenizer>(read_tokenizer_json(source, vocab_rows));
    }
    if (!source.model.empty()) {
      return std::make_unique<BpeTokenizer>(read_tokenizer_gguf(source, vocab_rows));
    }
  } catch (const std::bad_alloc&) {
    throw Error(errors::kOutOfMemory, {{"what", "the tokenizer"}, {"bytes", "the needed"}});
  }
  throw Error(errors::kTokenizerInvalid,
              {{"origin", source.origin},
               {"what", "there is none (neither tokenizer.json nor tokenizer.ggml.model)"}});
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool trusted) const {
  const PromptPiece piece{std::string(text), trusted};
  return encode(std::span(&piece, 1), true);
}

std::string_view Tokenizer::bytes(std::int32_t id) const {
  return is_control(id) ? std::string_view() : text(id).inside;
}

}  // namespace quern::text
