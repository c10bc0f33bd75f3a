// Any text as a client's EBNF, and as a structural tag: refused, or compiled, in bounded time and
// memory. Such a grammar may come to a dead end, which is the client's.
#include <cstdint>
#include <string>

#include "base/error.h"
#include "grammar/test_grammars.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace quern::grammar;
  if (size == 0 || size > 512) return 0;
  using Kind = quern::Grammar::Kind;
  const Kind kind = data[0] % 4 == 0 ? Kind::kStructuralTag : Kind::kEbnf;
  try {
    const auto grammar =
        compiled({kind, std::string(reinterpret_cast<const char*>(data) + 1, size - 1)});
    draw(grammar, static_cast<unsigned>(size), 20);
  } catch (const quern::Error&) {
  }
  return 0;
}
