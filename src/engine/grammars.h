// Grammars of an engine: from what a request asks to what its answer follows. Used by the engine.
#pragma once

#include <memory>
#include <optional>

#include "engine/answer_grammar.h"
#include "engine/startup.h"
#include "grammar/compile_queue.h"

namespace quern::engine {

// Throws: kGrammarBackendUnknown; kGrammarInvalid for a pattern of white space.
void check_grammar_options(const EngineOptions& options);

class Grammars {
 public:
  // The model must outlive it.
  Grammars(const EngineOptions& options, const LoadedModel& loaded);

  // What the request's answer has to follow, if anything; on the thread that submits it.
  // Throws: kGrammarInvalid, kGrammarBackendOff, kToolFormatNotForced.
  std::optional<grammar::Source> source_of(const Request& request) const;
  grammar::CompileQueue& queue() { return queue_; }

 private:
  grammar::Source tool_source(const ChatOptions& chat) const;
  std::unique_ptr<grammar::Vocabulary> vocabulary(bool with_marks) const;

  const LoadedModel& loaded_;
  const bool off_;
  const grammar::JsonStyle style_;
  grammar::CompileQueue queue_;
};

}  // namespace quern::engine
