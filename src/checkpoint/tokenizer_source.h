// The tokenizer of a path alone, whether or not its model can be served. Called by the engine for
// `quern tokenize` and `quern bench tokenizer`.
#pragma once

#include <string>

#include "checkpoint/checkpoint.h"

namespace quern::checkpoint {

struct TokenizerOfPath {
  TokenizerSource source;
  std::int64_t rows = 0;  // of the embedding, as far as is known: a bound on ids
};

// `path`: a model as read_metadata() takes it, a .gguf file of any architecture, or a tokenizer's
// own file (tokenizer.json, tokenizer.model, tekken.json, *.tiktoken).
// Throws: what read_metadata() throws.
TokenizerOfPath read_tokenizer(const std::string& path);

}  // namespace quern::checkpoint
