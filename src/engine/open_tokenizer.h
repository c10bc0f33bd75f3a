// A tokenizer without its model's weights. Called by `quern tokenize` and `quern bench tokenizer`.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "text/tokenizer.h"

namespace quern::engine {

struct OpenedTokenizer {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::int32_t ids = 0;  // all are below this
};

// `path`: a model, served or not, or a tokenizer's file (checkpoint/tokenizer_source.h).
// Throws: the errors of reading a model's metadata and tokenizer.
OpenedTokenizer open_tokenizer(const std::string& path);

}  // namespace quern::engine
