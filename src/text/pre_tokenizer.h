// Cuts text into the words that the model then encodes one by one: an ordered list of steps, as
// tokenizer.json writes them. Immutable; any thread.
#pragma once

#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "text/regex.h"

namespace quern::text {

// What becomes of the matches of a pattern (tokenizer.json's words).
enum class SplitBehavior { kIsolated, kRemoved, kContiguous, kMergedWithPrevious, kMergedWithNext };

struct SplitStep {
  Regex pattern;
  SplitBehavior behavior = SplitBehavior::kIsolated;
  bool invert = false;  // the pattern says what is kept, not what separates
};

// Puts a blank before each piece that has none, splits by GPT-2's pattern, and writes every byte as
// its character of the byte alphabet; steps after it see that text.
struct ByteLevelStep {
  bool add_prefix_space = false;
  bool use_regex = true;
};

// Writes blanks as `replacement`, puts one in front, and splits before each.
struct MetaspaceStep {
  enum class Prepend { kAlways, kFirst, kNever };  // kFirst: of the whole text only
  std::string replacement = "\xE2\x96\x81";
  Prepend prepend = Prepend::kAlways;
  bool split = true;
};

using PreTokenizerStep = std::variant<SplitStep, ByteLevelStep, MetaspaceStep>;

// Digits: numeric characters one by one, or runs of them.
PreTokenizerStep digits_split(bool individual);
// Punctuation: ASCII's and Unicode's.
PreTokenizerStep punctuation_split(SplitBehavior behavior);
// WhitespaceSplit: leaves out white space.
PreTokenizerStep white_space_split();
// Whitespace: runs of word characters and runs of others.
PreTokenizerStep word_split();

class PreTokenizer {
 public:
  PreTokenizer() = default;  // the text is one word
  // Requires: at most one of the steps is a ByteLevelStep.
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  bool empty() const { return steps_.empty(); }

  // The words of `text` in order; with a ByteLevelStep as bytes (not in the byte alphabet). A piece
  // on which a pattern costs too much stays one word from there on. `begins`: nothing of the whole
  // text stands before it. Requires: text is valid UTF-8.
  // `words` are views of `text` or of `storage`, which the caller keeps.
  void split(std::string_view text, bool begins, MatchScratch& scratch, std::string& storage,
             std::vector<std::string_view>& words) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace quern::text
