#include "text/tokenizer.h"

#include <algorithm>
#include <new>

#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/text.h"
#include "text/pipeline_tokenizer.h"

namespace quern::text {
namespace {

using Reader = TokenizerSpec (*)(const checkpoint::TokenizerSource&, std::int64_t);

// By what the source holds; of a model file the first bytes tell.
Reader reader_of(const checkpoint::TokenizerSource& source) {
  if (!source.tokenizer_json.empty()) return read_tokenizer_json;
  if (!source.model.empty()) return read_tokenizer_gguf;
  const std::string_view file = source.model_file;
  if (file.empty()) return nullptr;
  const std::size_t text = file.find_first_not_of(" \t\r\n");
  if (text != std::string_view::npos && file[text] == '{' &&
      file.find("\"config\"") != std::string_view::npos) {
    return read_tekken;
  }
  // A line of a tiktoken file is base64, a blank and a number; a SentencePiece model begins with
  // the tag of a piece, which is a line feed, and its length.
  const std::string_view line = file.substr(0, std::min(file.find('\n'), std::size_t{4096}));
  const std::size_t blank = line.find(' ');
  const bool tiktoken = blank != std::string_view::npos && blank > 0 &&
                        line.substr(0, blank).find_first_not_of(
                            "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=") ==
                            std::string_view::npos;
  return tiktoken ? read_tiktoken : read_sentencepiece;
}

}  // namespace

std::unique_ptr<Tokenizer> Tokenizer::create(const checkpoint::TokenizerSource& source,
                                             std::int64_t vocab_rows) {
  try {
    const auto read = reader_of(source);
    if (read != nullptr) return std::make_unique<PipelineTokenizer>(read(source, vocab_rows));
  } catch (const std::bad_alloc&) {
    throw Error(errors::kOutOfMemory, {{"what", "the tokenizer"}, {"bytes", "the needed"}});
  }
  throw Error(errors::kTokenizerInvalid, {{"origin", source.origin},
                                          {"what",
                                           "there is none (no tokenizer.json, tokenizer.model, "
                                           "tekken.json, tiktoken file or tokenizer.ggml.model)"}});
}

std::vector<std::int32_t> Tokenizer::encode(std::string_view text, bool trusted,
                                            EncodeOptions options) const {
  const PromptPiece piece{std::string(text), trusted};
  return encode(std::span(&piece, 1), options);
}

std::string_view Tokenizer::bytes(std::int32_t id) const {
  return is_control(id) ? std::string_view() : text(id).inside;
}

}  // namespace quern::text
