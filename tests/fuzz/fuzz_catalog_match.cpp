// Matching a pasted text against the error catalogue: any bytes, bounded time, places inside the
// text.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "catalog/match.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const quern::catalog::Match& match : quern::catalog::match(text)) {
    if (match.entry == nullptr || match.position > size) std::abort();
  }
  quern::catalog::find(text);
  quern::catalog::nearest(text.substr(0, 24), 3);  // longer ones only cost more
  quern::catalog::search({std::string(text), ""});
  return 0;
}
