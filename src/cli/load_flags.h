// The flags of `quern bench serve`; names are those of SGLang's bench_serving. Used by options.cpp.
#pragma once

#include "cli/flags.h"
#include "cli/options.h"

namespace quern::cli {

void add_load(Flags flags, Options* options);

// Settles what stands in several flags: address, rate, file. Throws: kInvalidFlagValue,
// kMissingArgument, kContradictoryFlags.
void settle_load(Options* options);

}  // namespace quern::cli
