// Finds tokens that stand in the text as they are written (control and user-defined ones), before
// BPE sees it. Immutable; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "text/flat_map.h"
#include "text/regex.h"

namespace quern::text {

// tokenizer.json's AddedToken.
struct AddedToken {
  std::string text;
  std::int32_t id = -1;
  bool special = false;      // found in trusted text only
  bool normalized = false;   // looked for after the others
  bool lstrip = false;       // takes the white space before it along
  bool rstrip = false;       // … and behind it
  bool single_word = false;  // not inside a word
  bool verbatim = false;     // a normalized one that is looked for as it is written
};

// A piece of text: the id of an added token, or -1 for text that is still to be encoded.
struct Segment {
  Span span;
  std::int32_t id = -1;
};

class AddedTokens {
 public:
  // Throws: kTokenizerInvalid for an empty or overlong text; `origin` is for the message.
  AddedTokens(std::vector<AddedToken> tokens, std::string_view origin);

  bool empty() const { return tokens_.empty(); }

  // Appends the segments of text[piece), leftmost and then longest token first. A special token
  // counts only where one span of `trusted` (ascending, none touching the next) covers all of it.
  void split(std::string_view text, Span piece, const std::vector<Span>& trusted,
             MatchScratch& scratch, std::vector<Segment>& out) const;

 private:
  struct Match {
    Span span;
    const AddedToken* token = nullptr;
  };

  bool next(std::string_view text, Span piece, const std::vector<Span>& trusted,
            Match& match) const;

  std::vector<AddedToken> tokens_;
  FlatMap<std::uint32_t> edges_;    // node << 8 | byte → node
  std::vector<std::int32_t> ends_;  // [nodes] index of the token that ends there, or -1
  std::array<bool, 256> begins_{};  // whether any token begins with this byte
};

}  // namespace quern::text
