// Cuts text into the words that BPE then merges by themselves: an ordered list of steps, as
// tokenizer.json writes them (Split, Digits, Punctuation, ByteLevel). Immutable; any thread.
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

using PreTokenizerStep = std::variant<SplitStep, ByteLevelStep>;

// Digits: numeric characters one by one, or runs of them.
PreTokenizerStep digits_split(bool individual);
// Punctuation: ASCII's and Unicode's.
PreTokenizerStep punctuation_split(SplitBehavior behavior);

class PreTokenizer {
 public:
  // Requires: exactly one of the steps is a ByteLevelStep.
  explicit PreTokenizer(std::vector<PreTokenizerStep> steps) : steps_(std::move(steps)) {}

  // The words of `text` in order, as bytes (not in the byte alphabet). A piece on which a pattern
  // costs too much stays one word from there on. Requires: text is valid UTF-8.
  // `words` are views of `text` or of `storage`, which the caller keeps.
  void split(std::string_view text, MatchScratch& scratch, std::string& storage,
             std::vector<std::string_view>& words) const;

 private:
  std::vector<PreTokenizerStep> steps_;
};

}  // namespace quern::text
