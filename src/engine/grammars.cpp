#include "engine/grammars.h"

#include <algorithm>

#include "base/error.h"
#include "base/errors/engine.h"
#include "base/errors/grammar.h"
#include "grammar/tool_grammar.h"

namespace quern::engine {
namespace {

constexpr std::pair<std::string_view, std::string_view> kOtherBackends[] = {
    {"outlines", "xgrammar takes what outlines takes: json_schema and regex."},
    {"llguidance", "xgrammar takes json_schema, regex and ebnf; write Lark grammars as EBNF."},
};

constexpr const char* kToolChoice = "tool_choice";

bool has_strict_tool(const std::string& tools) {
  try {
    return grammar::has_strict_tool(tools);
  } catch (const Error& syntax) {
    if (syntax.id() != errors::kGrammarInvalid) throw;
    throw Error(errors::kGrammarInvalid,
                {{"kind", kToolChoice}, {"detail", syntax.field("detail")}});
  }
}

}  // namespace

void check_grammar_options(const EngineOptions& options) {
  const std::string& name = options.grammar_backend;
  if (!name.empty() && name != "xgrammar" && name != "none") {
    std::string_view why = "It is no name of SGLang's either.";
    for (const auto& [other, reason] : kOtherBackends) {
      if (name == other) why = reason;
    }
    throw Error(errors::kGrammarBackendUnknown,
                {{"param", "--grammar-backend"}, {"name", name}, {"why", why}});
  }
  const std::string& pattern = options.constrained_json_whitespace_pattern;
  if (pattern.empty()) return;
  try {
    grammar::regex_grammar(pattern);
  } catch (const Error& syntax) {
    if (syntax.id() != errors::kGrammarInvalid) throw;
    throw Error(errors::kGrammarInvalid, {{"param", "--constrained-json-whitespace-pattern"},
                                          {"kind", "white space"},
                                          {"detail", syntax.field("detail")}});
  }
}

Grammars::Grammars(const EngineOptions& options, const LoadedModel& loaded)
    : loaded_(loaded),
      off_(options.grammar_backend == "none"),
      style_{!options.constrained_json_disable_any_whitespace,
             options.constrained_json_whitespace_pattern},
      queue_([this](bool with_marks) { return vocabulary(with_marks); }, {}) {}

std::unique_ptr<grammar::Vocabulary> Grammars::vocabulary(bool with_marks) const {
  const text::Tokenizer& tokenizer = *loaded_.tokenizer;
  std::vector<std::string> bytes(static_cast<size_t>(tokenizer.size()));
  for (std::int32_t id = 0; id < tokenizer.size(); ++id) {
    bytes[static_cast<size_t>(id)] = tokenizer.bytes(id);
  }
  if (with_marks) {
    for (const std::int32_t id : loaded_.formats->shown(true)) {
      bytes[static_cast<size_t>(id)] = tokenizer.text(id).inside;
    }
  }
  bytes.resize(std::min<size_t>(bytes.size(), static_cast<size_t>(loaded_.info.vocab)));
  return std::make_unique<grammar::Vocabulary>(bytes, loaded_.info.vocab,
                                               loaded_.config.eos_token_ids);
}

std::optional<grammar::Source> Grammars::source_of(const Request& request) const {
  const bool tools = request.messages && !request.chat.tools.empty();
  const bool calls = tools && (request.chat.call_required || has_strict_tool(request.chat.tools));
  if (!calls && !request.sampling.grammar) return std::nullopt;
  if (off_) throw Error(errors::kGrammarBackendOff);
  if (!calls || (request.sampling.grammar && !request.chat.call_required)) {
    // The form of the answer leaves no place for calls.
    grammar::Source source = grammar::read_grammar(*request.sampling.grammar, style_);
    if (request.messages) source.before = grammar::before_answer(loaded_.info.reasoning_parser);
    source.with_marks = tools || !source.before.empty();
    return source;
  }
  return tool_source(request.chat);
}

grammar::Source Grammars::tool_source(const ChatOptions& chat) const {
  try {
    return {grammar::Notation::kEbnf,
            grammar::tool_grammar({.format = loaded_.info.tool_call_parser,
                                   .tools = chat.tools,
                                   .name = chat.call_name,
                                   .required = chat.call_required,
                                   .parallel = chat.parallel_calls},
                                  style_),
            kToolChoice, true};
  } catch (const Error& syntax) {
    if (syntax.id() != errors::kGrammarInvalid) throw;
    throw Error(errors::kGrammarInvalid,
                {{"kind", kToolChoice}, {"detail", syntax.field("detail")}});
  }
}

}  // namespace quern::engine
