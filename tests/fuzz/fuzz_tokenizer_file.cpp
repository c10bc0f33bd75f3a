// libFuzzer target: any bytes as a tokenizer.model, a tekken.json or a tiktoken file. What is
// refused must be refused by an Error; what is taken must encode, and decode to valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/error.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quern::checkpoint::TokenizerSource source;
  source.model_file.assign(reinterpret_cast<const char*>(data), size);
  source.origin = "fuzz";
  source.add_bos = source.add_eos = true;
  source.added_tokens = {{.id = 900, .content = "<|im_end|>", .special = true}};
  try {
    const auto tokenizer = quern::text::Tokenizer::create(source, 1000);
    const quern::PromptPiece pieces[] = {
        {"It's  42 \xC3\xA9t\xC3\xA9,\n\n\xFF x<|im_end|> ab <s>", true},
        {source.model_file.substr(0, 512), false}};
    const auto ids = tokenizer->encode(pieces);
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= tokenizer->size()) __builtin_trap();
    }
    const std::string text = quern::text::decode(*tokenizer, ids);
    if (quern::valid_utf8(text) != text) __builtin_trap();
  } catch (const quern::Error&) {
  }
  return 0;
}
