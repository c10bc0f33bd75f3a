#include "engine/open_tokenizer.h"

#include "checkpoint/checkpoint.h"

namespace quern::engine {

OpenedTokenizer open_tokenizer(const std::string& model) {
  const checkpoint::Metadata metadata = checkpoint::read_metadata(model);
  return {text::Tokenizer::create(metadata.tokenizer, metadata.config.vocab),
          metadata.config.vocab};
}

}  // namespace quern::engine
