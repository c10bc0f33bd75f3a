// Regular expressions of requests and of JSON schemas, read into a grammar. The dialect is
// ECMAScript's without its flags, and the whole text has to match, as with SGLang's `regex`. What a
// grammar cannot say (lookaround, backreferences, \b) is refused.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "grammar/ebnf.h"

namespace quern::grammar {

inline constexpr size_t kMaxRegexBytes = 16 << 10;
inline constexpr int kMaxRegexDepth = 64;                // of groups
inline constexpr std::int64_t kMaxRegexRepeat = 10'000;  // in one {m,n}
inline constexpr std::int64_t kMaxRegexSize = 20'000;    // characters, repetitions multiplied out

inline constexpr std::int64_t kMaxNestedSize = 1'000;  // of repetitions within one

// How the matched text is written.
enum class RegexText {
  kPlain,
  kJsonString,    // as the inside of a JSON string: quotes, backslashes and controls are escaped
  kTaggedString,  // as kJsonString, with "<" escaped too
  kTagged,        // as it is, without "<" and line breaks
};

class Regex {
 public:
  // Throws: kGrammarInvalid, which says where and why.
  explicit Regex(std::string_view pattern);

  // Adds the rule that writes what matches, and what stands behind it.
  int add_to(Ebnf* ebnf, RegexText text, const Alternative& behind = {}) const;

  // Characters of the shortest and the longest match; kNoMaximum.
  std::int64_t shortest() const { return nodes_[root_].shortest; }
  std::int64_t longest() const { return nodes_[root_].longest; }

 private:
  friend class RegexReader;
  friend class RegexWriter;
  enum class Kind { kSet, kSequence, kChoice, kRepeat };
  struct Node {
    Kind kind = Kind::kSequence;
    CharSet set{};                // kSet
    std::vector<size_t> parts{};  // of kRepeat one
    std::int64_t min = 1, max = 1;
    std::int64_t shortest = 0, longest = 0, size = 0;
    bool repeats = false;  // something in it does, so that a text may match in many ways
  };

  std::vector<Node> nodes_;  // parts stand before their whole
  size_t root_ = 0;
};

// Throws kGrammarInvalid with what is wrong with a grammar as its detail. Who knows the grammar's
// kind throws it again with that.
[[noreturn]] void refuse_grammar(std::string_view reason);

}  // namespace quern::grammar
