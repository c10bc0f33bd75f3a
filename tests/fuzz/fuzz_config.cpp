// Fuzzes the JSON files of a Hugging Face folder: config, generation config, tokenizer config.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/error.h"
#include "checkpoint/config.h"
#include "checkpoint/hf_folder.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern::checkpoint;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  quern::ModelConfig config;
  try {
    config = parse_config(text, "fuzz.json");
  } catch (const quern::Error&) {  // a refusal is an answer
  }
  try {
    parse_generation_config(text, "fuzz.json", config);
  } catch (const quern::Error&) {
  }
  try {
    TokenizerSource source;
    parse_tokenizer_config(text, "fuzz.json", source);
  } catch (const quern::Error&) {
  }
  return 0;
}
