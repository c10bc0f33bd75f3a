// Any text as a regular expression of an answer: refused, or a grammar that compiles in bounded time
// and memory; and no token that its mask allows is refused.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "grammar/test_grammars.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern::grammar;
  if (size > 512) return 0;
  try {
    const auto grammar = compiled_regex(std::string(reinterpret_cast<const char*>(data), size));
    if (draw(grammar, static_cast<unsigned>(size), 30).stuck) __builtin_trap();
  } catch (const quern::Error&) {
  }
  return 0;
}
