// Calls of tools in the format that a model writes, as a grammar: forced ones, and text in which
// calls may stand. Used by the engine; text/tool_calls reads what comes of it.
#pragma once

#include <string>
#include <string_view>

#include "grammar/json_grammar.h"
#include "quern/types.h"

namespace quern::grammar {

struct ToolCalls {
  std::string_view format;  // SGLang's name of it
  std::string_view tools;   // a JSON array of OpenAI's tools
  std::string_view name{};  // the one that has to be called; "": any
  bool required = true;     // else text, in which calls may stand
  bool parallel = true;     // several calls may come
};

// Whether some tool says `strict`.
bool has_strict_tool(std::string_view tools);

// The EBNF. Arguments follow the schema of a tool that is strict, and of others where a grammar can
// hold to it; else they are a JSON object. Throws: kGrammarInvalid, kToolFormatNotForced.
std::string tool_grammar(const ToolCalls& calls, const JsonStyle& style);

// The EBNF of what a format writes before an answer that is no call; "": nothing.
std::string before_answer(std::string_view format);

}  // namespace quern::grammar
