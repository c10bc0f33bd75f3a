// `quern bench grammar`: how long a tokenizer's vocabulary takes to compile schemas, and its masks.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "cli/commands.h"
#include "engine/grammar_benchmark.h"

namespace quern::cli {
namespace {

double share(const std::vector<double>& ordered, double part) {
  if (ordered.empty()) return 0;
  return ordered[static_cast<size_t>(part * static_cast<double>(ordered.size() - 1))];
}

double mean(const std::vector<double>& values) {
  return values.empty() ? 0
                        : std::accumulate(values.begin(), values.end(), 0.0) /
                              static_cast<double>(values.size());
}

}  // namespace

int bench_grammar_command(const Options& options) {
  engine::GrammarBenchmarks all =
      engine::measure_grammars(options.model, options.file, options.bench_repeats);
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  engine::GrammarBenchmark sum;
  sum.name = "all";
  std::vector<double> compile;
  const auto line = [](const engine::GrammarBenchmark& g) {
    fmt::print("{:<22} {:8.1f} {:8.1f} {:7.1f} {:9.1f} {:9.1f} {:9.1f} {:7} {:7}\n", g.name,
               1e3 * g.read_seconds, 1e3 * g.compile_seconds, static_cast<double>(g.bytes) / 1e6,
               1e6 * mean(g.mask_seconds), 1e6 * share(g.mask_seconds, 0.99),
               1e6 * share(g.mask_seconds, 1), g.tokens, g.forced);
  };
  if (!options.json) {
    fmt::print("{} tokens; what grammars share is made in {:.0f} ms\n", all.vocab,
               1e3 * all.vocabulary_seconds);
    fmt::print("{:<22} {:>8} {:>8} {:>7} {:>9} {:>9} {:>9} {:>7} {:>7}\n", "schema", "read ms",
               "comp. ms", "MB", "mask us", "99 %", "worst", "tokens", "forced");
  }
  for (const engine::GrammarBenchmark& g : all.grammars) {
    list.push_back({{"name", g.name},
                    {"read_s", g.read_seconds},
                    {"compile_s", g.compile_seconds},
                    {"bytes", g.bytes},
                    {"mask_mean_s", mean(g.mask_seconds)},
                    {"mask_p99_s", share(g.mask_seconds, 0.99)},
                    {"mask_max_s", share(g.mask_seconds, 1)},
                    {"tokens", g.tokens},
                    {"forced", g.forced}});
    if (!options.json) line(g);
    compile.push_back(g.compile_seconds);
    sum.read_seconds += g.read_seconds;
    sum.compile_seconds += g.compile_seconds;
    sum.bytes += g.bytes;
    sum.mask_seconds.insert(sum.mask_seconds.end(), g.mask_seconds.begin(), g.mask_seconds.end());
    sum.tokens += g.tokens;
    sum.forced += g.forced;
  }
  if (options.json) {
    fmt::print("{}\n", nlohmann::ordered_json{{"vocab", all.vocab},
                                              {"vocabulary_s", all.vocabulary_seconds},
                                              {"grammars", std::move(list)}}
                           .dump(2));
    return 0;
  }
  std::sort(sum.mask_seconds.begin(), sum.mask_seconds.end());
  std::sort(compile.begin(), compile.end());
  line(sum);
  fmt::print("compiled in {:.1f} ms, the median of {}\n", 1e3 * share(compile, 0.5),
             compile.size());
  return 0;
}

}  // namespace quern::cli
