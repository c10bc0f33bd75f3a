// How models write calls of tools, as data for grammars: one way of each format of
// text/tool_calls/registry.cpp, which reads all that models write.
#pragma once

#include <string_view>
#include <vector>

#include "grammar/json_grammar.h"

namespace quern::grammar {

// section_begin call (separator call)* section_end, a call being: begin NAME middle ARGUMENTS end
struct CallFormat {
  enum class Text {
    kMarked,   // the opening mark, up to its '>' or ']', begins calls in a text
    kListed,   // "[NAME(" does
    kBare,     // a call is a whole answer, or follows `other_mark`
    kHarmony,  // answers are messages (gpt-oss)
  };
  std::vector<std::string_view> names;
  std::string_view section_begin{}, begin{}, middle{}, end{}, separator{}, section_end{};
  Text text = Text::kMarked;
  std::string_view other_mark{};  // that a reader takes for a call's beginning too
  bool numbered = false;          // NAME:NUMBER
  // Parameters stand each by itself, not as a JSON object.
  bool apart = false;
  Wording wording = Wording::kJson;
  ParameterMarks parameters{};
};

// Throws: kToolFormatNotForced.
const CallFormat& call_format(std::string_view name);

}  // namespace quern::grammar
