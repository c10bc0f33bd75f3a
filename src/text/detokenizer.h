// Incremental detokenizer: bytes in, whole characters out. It holds back at most the three bytes of
// an unfinished character, and gives U+FFFD for each maximal sequence that cannot become one, so
// that joined pushes and the flush equal decode() of all ids. One thread.
#pragma once

#include <string>
#include <string_view>

namespace quern::text {

class Detokenizer {
 public:
  // Whole characters that `bytes` completes; valid UTF-8.
  std::string push(std::string_view bytes);
  // What is still held back, as U+FFFD; "" if nothing is.
  std::string flush();

 private:
  std::string pending_;
};

}  // namespace quern::text
