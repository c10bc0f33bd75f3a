// libFuzzer target: any bytes as a tokenizer.json, then a fixed text and the bytes themselves as
// prompts. What is refused must be refused by an Error; what is taken must encode, and decode to
// valid UTF-8.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/error.h"
#include "text/tokenizer.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  quern::checkpoint::TokenizerSource source;
  source.tokenizer_json.assign(reinterpret_cast<const char*>(data), size);
  source.origin = "fuzz";
  try {
    const auto tokenizer = quern::text::Tokenizer::create(source, 1000);
    const std::string_view input = source.tokenizer_json;
    const quern::PromptPiece pieces[] = {
        {"<|im_start|>It's  42 \xC3\xA9t\xC3\xA9,\n\n\xFF x<|im_end|>", true},
        {std::string(input.substr(0, 512)), false},
        {std::string(input.substr(input.size() - input.size() / 4)), true}};
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
