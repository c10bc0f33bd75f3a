// Changes a text before it is cut into words: an ordered list of steps, as tokenizer.json and
// SentencePiece write them. Immutable; any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/charsmap.h"
#include "text/regex.h"
#include "text/unicode.h"

namespace quern::text {

struct PrependStep {
  std::string text;
};
// Puts `content` for each match, of the pattern or else of the literal.
struct ReplaceStep {
  std::optional<Regex> pattern;
  std::string literal;
  std::string content;
};
struct StripStep {
  bool left = true, right = true;  // white space is taken off that end
};
struct LowercaseStep {};
struct StripAccentsStep {};  // leaves out marks; a text is decomposed by the step before
struct NmtStep {};           // leaves out control characters, makes blanks of Unicode's
struct BertStep {
  bool clean_text = true;            // leaves out control characters, makes blanks of white space
  bool handle_chinese_chars = true;  // puts blanks around ideographs
  bool strip_accents = true;
  bool lowercase = true;
};
// tokenizer.json's Precompiled: by grapheme cluster, by its shortest key; else by character.
struct CharsmapStep {
  Charsmap map;
};
// SentencePiece's own normalizer: by longest key; then blanks.
struct SentencePieceStep {
  Charsmap map;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;  // at both ends, and but one within
  bool escape_whitespaces = true;        // a blank becomes U+2581
  bool blank_behind = false;             // the dummy blank stands at the end
};

using NormalizerStep =
    std::variant<UnicodeForm, PrependStep, ReplaceStep, StripStep, LowercaseStep, StripAccentsStep,
                 NmtStep, BertStep, CharsmapStep, SentencePieceStep>;

class Normalizer {
 public:
  Normalizer() = default;  // changes nothing
  explicit Normalizer(std::vector<NormalizerStep> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }
  // Requires: text is valid UTF-8. Cost: O(n) for each step.
  void run(std::string& text, MatchScratch& scratch) const;

 private:
  std::vector<NormalizerStep> steps_;
};

}  // namespace quern::text
