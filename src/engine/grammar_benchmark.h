// Times grammars with a tokenizer's vocabulary: compiling schemas, and the masks of answers that
// are drawn at random. Called by `quern bench grammar`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace quern::engine {

struct GrammarBenchmark {
  std::string name;
  double read_seconds = 0, compile_seconds = 0;
  std::int64_t bytes = 0;               // of the compiled grammar
  std::vector<double> mask_seconds;     // ordered
  std::int64_t tokens = 0, forced = 0;  // drawn, and those that needed no mask
};

struct GrammarBenchmarks {
  std::int64_t vocab = 0;
  double vocabulary_seconds = 0;  // making what all grammars share
  std::vector<GrammarBenchmark> grammars;
};

// `schemas`: a file with a JSON object of JSON schemas by name. Of each `answers` are drawn, of 256
// tokens at most, with every allowed token as likely. Throws: the errors of reading both files and
// kGrammarInvalid.
GrammarBenchmarks measure_grammars(const std::string& tokenizer, const std::string& schemas,
                                   std::int64_t answers);

}  // namespace quern::engine
