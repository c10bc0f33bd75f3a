// Fuzzes everything that opening a GGUF file does with its bytes.
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/error.h"
#include "checkpoint/gguf_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern::checkpoint;
  try {
    const GgufHeader header = parse_gguf(std::as_bytes(std::span(data, size)), "fuzz.gguf");
    place_tensors(header, size);
    const quern::ModelConfig config = gguf_config(header);
    gguf_tokenizer(header, config);
    gguf_generation(header);
  } catch (const quern::Error&) {  // a refusal is an answer
  }
  return 0;
}
