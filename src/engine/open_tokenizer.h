// A model's tokenizer without its weights. Called by `quern tokenize`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace quern::engine {

struct OpenedTokenizer {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::int64_t vocab = 0;  // rows of the model's embedding
};

// Throws: the errors of reading a model's metadata and tokenizer.
OpenedTokenizer open_tokenizer(const std::string& model);

}  // namespace quern::engine
