// `quern bench perplexity FILE`: how well the model, as this build computes it, predicts a text.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/errors/engine.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "engine/benchmark.h"

namespace quern::cli {

int bench_perplexity_command(const Options& options) {
  std::ifstream file(options.file, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(file)), {});
  if (!file) throw Error(errors::kFileUnreadable, {{"file", options.file}});
  Progress progress("Loading");
  EngineOptions engine_options = options.engine;
  engine_options.on_progress = progress.callback();
  engine::LoadedModel loaded = engine::load_model(engine_options);
  progress.finish();
  const engine::Perplexity result = engine::measure_perplexity(loaded, text);
  if (options.json) {
    fmt::print("{}\n",
               nlohmann::ordered_json{{"perplexity", result.perplexity}, {"tokens", result.tokens}}
                   .dump());
  } else {
    fmt::print("perplexity {:.4f} over {} tokens\n", result.perplexity, result.tokens);
  }
  return 0;
}

}  // namespace quern::cli
