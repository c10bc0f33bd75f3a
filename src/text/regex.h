// Unicode regular expressions over UTF-8 for splitting text, by PCRE2 with its JIT. Patterns come
// from tokenizer files: they are outside data, so what the two regex dialects would read
// differently is refused, and a match that would cost too much is given up.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace quern::text {

// Bytes [begin, end) of a text.
struct Span {
  std::size_t begin, end;
  std::size_t size() const { return end - begin; }
};

// What a thread needs to match: result slots, a stack for the JIT and the limits. Made once for an
// encode() and used by one thread.
class MatchScratch {
 public:
  MatchScratch();
  ~MatchScratch();
  MatchScratch(const MatchScratch&) = delete;
  MatchScratch& operator=(const MatchScratch&) = delete;

 private:
  friend class Regex;
  struct State;
  std::unique_ptr<State> state_;
};

enum class MatchResult {
  kMatch,
  kNone,
  kGivenUp,  // a limit was reached
};

// Immutable; any thread.
class Regex {
 public:
  // `literal`: the pattern is text to be found as it stands. `origin` is for messages.
  // Throws: kTokenizerUnsupported for a construct whose meaning differs between Oniguruma (in whose
  // dialect tokenizer.json writes patterns) and PCRE2, kTokenizerInvalid for one that does not
  // compile.
  Regex(std::string_view pattern, bool literal, std::string_view origin);

  // Searches from byte `start` on. Requires: subject is valid UTF-8, start stands between two
  // characters.
  MatchResult find(std::string_view subject, std::size_t start, MatchScratch& scratch,
                   Span& match) const;
  // False where no byte of `subject` can begin a match: cheaper than to search a short word.
  bool can_match(std::string_view subject) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;  // shared by the copies of this object
};

}  // namespace quern::text
