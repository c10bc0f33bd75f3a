// Text in which certain words do not stand, or lead elsewhere: what surrounds calls of tools, and
// what stands between tags. Used by the grammars of calls.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/ebnf.h"

namespace quern::grammar {

struct Mark {
  std::string_view word;  // not empty
  int behind = -1;        // the rule that follows it; −1: the word does not come
};

// Any text, which may end anywhere, and in which a mark is followed by its rule to the end. The
// first character is none of `not_first`. Requires: no mark begins another; valid UTF-8.
int add_marked_text(Ebnf* ebnf, const std::vector<Mark>& marks, const CharSet& not_first = {});

// Text with lists of calls in Python's syntax: "[", blanks, a name of these and "(" are followed by
// that name's rule to the end. Requires: names of ASCII letters, digits, '_', '-' and '.'.
int add_listed_text(Ebnf* ebnf, const std::map<std::string, int>& calls);

}  // namespace quern::grammar
