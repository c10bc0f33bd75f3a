// What a request asks of its answer's form, read: checked, and written in the notation of the
// compiler. Called by the engine on the thread that submits a request.
#pragma once

#include <string>
#include <string_view>

#include "grammar/compiler.h"
#include "grammar/json_grammar.h"
#include "quern/types.h"

namespace quern::grammar {

// Ready to be compiled.
struct Source {
  Notation notation = Notation::kEbnf;
  std::string text{};
  std::string kind{};       // the word for it in messages
  bool with_marks = false;  // the control tokens of tool calls write their text
  std::string before{};     // EBNF of what stands before the text; "": nothing
};

// Bounded in time by the grammar's size, which is. Throws: kGrammarInvalid.
Source read_grammar(const Grammar& grammar, const JsonStyle& style);

inline constexpr size_t kMaxEbnfBytes = 64 << 10;
inline constexpr int kMaxEbnfDepth = 64;             // of groups
inline constexpr std::int64_t kMaxEbnfRepeat = 128;  // in one {m,n}

// A client's EBNF: its size, nesting and repetitions, and what the compiler would take that changes
// more than the text. Throws: kGrammarInvalid.
void check_ebnf(std::string_view text);

// A client's structural tag, SGLang's older form too, with its schemas, patterns and grammars
// checked and written as grammars. Throws: kGrammarInvalid.
std::string read_structural_tag(std::string_view text, const JsonStyle& style);

}  // namespace quern::grammar
