#include "engine/open_tokenizer.h"

#include <utility>

#include "checkpoint/tokenizer_source.h"

namespace quern::engine {

OpenedTokenizer open_tokenizer(const std::string& path) {
  const checkpoint::TokenizerOfPath found = checkpoint::read_tokenizer(path);
  auto tokenizer = text::Tokenizer::create(found.source, found.rows);
  const std::int32_t ids = tokenizer->size();
  return {std::move(tokenizer), ids};
}

}  // namespace quern::engine
