// Incremental detokenizer: token ids in, whole characters out, by the tokenizer's rules of
// decoding. Joined pushes and the flush equal decode() of all ids. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "text/tokenizer.h"
#include "text/utf8_decoder.h"

namespace quern::text {

class Detokenizer {
 public:
  // Requires: the tokenizer outlives this object.
  explicit Detokenizer(const Tokenizer& tokenizer, DecodeOptions options = {});

  // The text that the token completes; valid UTF-8.
  std::string push(std::int32_t id);
  // What is still held back, a cut character as U+FFFD.
  std::string flush();

 private:
  std::string strip(std::string text);

  const Tokenizer* tokenizer_;
  DecodeOptions options_;
  DecodeRules rules_;
  Utf8Decoder decoder_;
  bool after_control_ = false;
  bool first_;                // the next token is the first of the text
  std::int32_t strip_begin_;  // how many characters may still be taken off the beginning
  std::string held_;          // characters that are taken off if the text ends here
};

}  // namespace quern::text
