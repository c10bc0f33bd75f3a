#include "grammar/grammar.h"

#include "base/error.h"
#include "base/errors/grammar.h"

namespace quern::grammar {
namespace {

const char* word_of(Grammar::Kind kind) {
  switch (kind) {
    case Grammar::Kind::kJsonObject: return "json_object";
    case Grammar::Kind::kJsonSchema: return "json_schema";
    case Grammar::Kind::kRegex: return "regex";
    case Grammar::Kind::kEbnf: return "ebnf";
    case Grammar::Kind::kStructuralTag: return "structural_tag";
  }
  return "";
}

std::string read(const Grammar& grammar, const JsonStyle& style) {
  switch (grammar.kind) {
    case Grammar::Kind::kJsonObject: return json_object_grammar(style);
    case Grammar::Kind::kJsonSchema: return json_schema_grammar(grammar.text, style);
    case Grammar::Kind::kRegex: return regex_grammar(grammar.text);
    case Grammar::Kind::kEbnf: check_ebnf(grammar.text); return grammar.text;
    case Grammar::Kind::kStructuralTag: return read_structural_tag(grammar.text, style);
  }
  return {};
}

}  // namespace

Source read_grammar(const Grammar& grammar, const JsonStyle& style) {
  const char* kind = word_of(grammar.kind);
  try {
    return {
        grammar.kind == Grammar::Kind::kStructuralTag ? Notation::kStructuralTag : Notation::kEbnf,
        read(grammar, style), kind, false};
  } catch (const Error& syntax) {
    if (syntax.id() != errors::kGrammarInvalid) throw;
    throw Error(errors::kGrammarInvalid, {{"kind", kind}, {"detail", syntax.field("detail")}});
  }
}

}  // namespace quern::grammar
