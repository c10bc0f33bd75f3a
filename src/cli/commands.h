// One function for each command of the program, each in a file of its own name. Called by main with
// options that were parsed and range-checked. The result is the process's exit code: 0, or 1 for a
// failure that the command has reported itself. Throws: Error, which main prints.
#pragma once

#include "cli/options.h"

namespace quern::cli {

int serve_command(const Options& options);             // serve.cpp
int generate_command(const Options& options);          // generate.cpp
int chat_command(const Options& options);              // chat.cpp
int bench_latency_command(const Options& options);     // bench_latency.cpp
int bench_perplexity_command(const Options& options);  // bench_perplexity.cpp
int bench_kernels_command(const Options& options);     // bench_kernels.cpp
int bench_scheduler_command(const Options& options);   // bench_scheduler.cpp
int bench_throughput_command(const Options& options);  // bench_throughput.cpp
int bench_serve_command(const Options& options);       // bench_serve.cpp
int bench_tokenizer_command(const Options& options);   // bench_tokenizer.cpp
int bench_grammar_command(const Options& options);     // bench_grammar.cpp
int inspect_command(const Options& options);           // inspect.cpp
int template_command(const Options& options);          // template.cpp
int tokenize_command(const Options& options);          // tokenize.cpp
int check_command(const Options& options);             // check.cpp
int backends_command(const Options& options);          // backends.cpp
int explain_command(const Options& options);           // explain.cpp
int catalog_serve_command(const Options& options);     // catalog.cpp
int catalog_export_command(const Options& options);    // catalog.cpp

// Returns where a backend fits the model, this machine and all flags, those included that the
// engine does not know (speculative decoding). Throws: as check_command.
void require_fit(const Options& options);  // check.cpp

}  // namespace quern::cli
