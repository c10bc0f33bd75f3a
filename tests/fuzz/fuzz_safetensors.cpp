// Fuzzes the safetensors header, and the same bytes as the index of a sharded checkpoint.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/error.h"
#include "checkpoint/safetensors.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern::checkpoint;
  try {
    const auto header = parse_safetensors(std::as_bytes(std::span(data, size)), "fuzz.safetensors");
    for (const SafetensorsTensor& tensor : header.tensors) tensor_info(tensor, "fuzz.safetensors");
  } catch (const quern::Error&) {  // a refusal is an answer
  }
  try {
    parse_safetensors_index({reinterpret_cast<const char*>(data), size}, "fuzz.index.json");
  } catch (const quern::Error&) {
  }
  return 0;
}
