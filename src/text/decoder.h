// What tokens write: the decoder of a tokenizer file, worked out for each token beforehand, so that
// decoding a stream is joining bytes. Used once while a tokenizer is made.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"
#include "text/tokenizer.h"

namespace quern::text {

struct ByteLevelDecode {};     // from the byte alphabet; texts outside it stay
struct ByteFallbackDecode {};  // "<0xAB>" is that byte
struct FuseDecode {};          // steps behind it see the whole text
struct ReplaceDecode {
  std::optional<Regex> pattern;
  std::string literal;
  std::string content;
};
struct StripDecode {
  std::string content = " ";  // one character
  std::int32_t start = 0, stop = 0;
};
// A mark is a blank; the first token loses its marks.
struct MetaspaceDecode {
  std::string replacement = "\xE2\x96\x81";
  bool drop_first = true;
};
struct WordPieceDecode {
  std::string prefix = "##";
  bool cleanup = true;  // no blank before punctuation and English contractions
};
struct JoinDecode {};  // a blank between tokens, where a file has no decoder
// SentencePiece's own: a mark is a blank, and the text loses its dummy one.
struct SentencePieceDecode {
  bool dummy_prefix = true;
  bool all_leading = false;  // all blanks that lead the text
};

using DecoderStep =
    std::variant<ByteLevelDecode, ByteFallbackDecode, FuseDecode, ReplaceDecode, StripDecode,
                 MetaspaceDecode, WordPieceDecode, JoinDecode, SentencePieceDecode>;

class Decoder {
 public:
  Decoder() = default;
  explicit Decoder(std::vector<DecoderStep> steps) : steps_(std::move(steps)) {}

  struct Text {
    std::string inside, first;  // as in TokenText
  };
  // What a token with that stored text writes; `byte`: the token stands for the byte it names.
  Text text_of(std::string_view token, bool byte, MatchScratch& scratch) const;
  // What is done to all tokens together.
  DecodeRules rules() const;

 private:
  std::vector<DecoderStep> steps_;
};

}  // namespace quern::text
