// The generated catalogue.json as bytes of the program: the assembler copies the file, which costs
// the compiler nothing.
#include "catalog/data.h"

// QUERN_CATALOG_FILE is the path in quotes.
__asm__(
    ".pushsection .rodata.quern_catalog,\"a\"\n"
    ".global quern_catalog_begin\n"
    ".global quern_catalog_end\n"
    "quern_catalog_begin:\n"
    ".incbin " QUERN_CATALOG_FILE
    "\n"
    "quern_catalog_end:\n"
    ".popsection\n");

extern "C" {
extern const char quern_catalog_begin[];
extern const char quern_catalog_end[];
}

namespace quern::catalog {

std::string_view data() {
  return {quern_catalog_begin,
          static_cast<std::string_view::size_type>(quern_catalog_end - quern_catalog_begin)};
}

}  // namespace quern::catalog
