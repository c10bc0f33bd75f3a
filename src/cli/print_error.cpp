#include "cli/print_error.h"

#include <cstdio>
#include <string>
#include <string_view>

namespace quern::cli {

void print_error(const Error& error) {
  std::fprintf(stderr, "error[%s]: %s\n", error.entry().id, error.what());
  std::string_view hint = error.field("hint");
  while (!hint.empty()) {
    const size_t end = hint.find('\n');
    std::fprintf(stderr, "  %s\n", valid_utf8(hint.substr(0, end)).c_str());
    hint.remove_prefix(end == hint.npos ? hint.size() : end + 1);
  }
}

}  // namespace quern::cli
