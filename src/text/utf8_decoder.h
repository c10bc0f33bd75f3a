// Bytes in, whole characters out. It holds back at most the three bytes of an unfinished character
// and gives U+FFFD for what cannot become one, so that joined pushes and the flush do not depend on
// how the bytes were cut. One thread.
#pragma once

#include <string>
#include <string_view>

namespace quern::text {

class Utf8Decoder {
 public:
  enum class Replace {
    kMaximalSequences,  // one U+FFFD for each sequence that cannot become a character (WHATWG)
    kBytes,             // one for each byte of it (SentencePiece)
  };

  explicit Utf8Decoder(Replace replace = Replace::kMaximalSequences) : replace_(replace) {}

  // Whole characters that `bytes` completes; valid UTF-8.
  std::string push(std::string_view bytes);
  // What is still held back, as U+FFFD; "" if nothing is.
  std::string flush();

 private:
  void replace(std::size_t length, std::string& out) const;

  Replace replace_;
  std::string pending_;
};

}  // namespace quern::text
