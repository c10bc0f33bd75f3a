// `quern bench perplexity FILE`: how well the model, as this build computes it, predicts a text.
#include <fmt/format.h>

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "base/error.h"
#include "base/errors/engine.h"
#include "cli/commands.h"
#include "cli/progress.h"
#include "engine/benchmark.h"

namespace quern::cli {
namespace {

std::string read_text(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::string text;
  char bytes[65536];
  while (file.read(bytes, sizeof bytes) || file.gcount() > 0) {
    text.append(bytes, static_cast<size_t>(file.gcount()));
  }
  // A folder opens and cannot be read.
  if (!file.is_open() || file.bad()) throw Error(errors::kFileUnreadable, {{"file", path}});
  return text;
}

}  // namespace

int bench_perplexity_command(const Options& options) {
  const std::string text = read_text(options.file);
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
