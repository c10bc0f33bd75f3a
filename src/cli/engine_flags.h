// The groups of flags that commands put together. Called by options.cpp; `options` receives the
// values and must outlive the parser.
#pragma once

#include "cli/flags.h"
#include "cli/options.h"

namespace quern::cli {

void add_model(Flags flags, Options* options);  // which model, and the log's level
void add_special_tokens(Flags flags, Options* options);
void add_chat_template(Flags flags, Options* options);
void add_engine(Flags flags, Options* options);
void add_sampling(Flags flags, Options* options);
void add_serve(Flags flags, Options* options);
void add_latency(Flags flags, Options* options);
void add_scheduling(Flags flags, Options* options);  // who runs when
void add_kernels(Flags flags, Options* options);
void add_throughput(Flags flags, Options* options);
void add_address(Flags flags, Options* options);  // where a server listens
void add_explain(Flags flags, Options* options);

}  // namespace quern::cli
