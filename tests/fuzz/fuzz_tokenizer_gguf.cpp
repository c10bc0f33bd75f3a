// libFuzzer target: any bytes as a GGUF file whose tokenizer alone counts (tokenizer.ggml.*). What is
// refused must be refused by an Error; what is taken must encode, and decode to valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "base/error.h"
#include "checkpoint/gguf_config.h"
#include "text/detokenizer.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern;
  try {
    const auto bytes = std::as_bytes(std::span(data, size));
    const auto source = checkpoint::gguf_tokenizer(checkpoint::parse_gguf(bytes, "fuzz.gguf"));
    const auto tokenizer =
        text::Tokenizer::create(source, static_cast<std::int64_t>(source.tokens.size()));
    const PromptPiece pieces[] = {
        {"It's  42 \xC3\xA9t\xC3\xA9,\n\n\xFF x<|im_end|> ab <s>", true},
        {std::string(reinterpret_cast<const char*>(data), size < 512 ? size : 512), false}};
    const auto ids = tokenizer->encode(pieces);
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= tokenizer->size()) __builtin_trap();
    }
    const std::string text = text::decode(*tokenizer, ids);
    if (valid_utf8(text) != text) __builtin_trap();
  } catch (const Error&) {
  }
  return 0;
}
