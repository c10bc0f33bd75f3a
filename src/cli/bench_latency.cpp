// `quern bench latency`: prefill and decode speed of the model alone, as tokens a second and as a
// share of what the memory gives.
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/commands.h"
#include "cli/progress.h"
#include "engine/benchmark.h"
#include "kernels/probe.h"

namespace quern::cli {
namespace {

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int bench_latency_command(const Options& options) {
  const engine::LatencyPlan plan{.depth = options.bench_depth,
                                 .prefill = options.bench_prefill,
                                 .decode = options.bench_decode,
                                 .batch = options.bench_batch};
  EngineOptions engine_options = options.engine;
  if (engine_options.max_total_tokens == 0) {
    const std::int64_t largest_page = 128;
    engine_options.max_total_tokens = plan.batch * (plan.tokens() + largest_page);
  }
  engine_options.max_running_requests = std::max(engine_options.max_running_requests, plan.batch);
  Progress progress("Loading");
  engine_options.on_progress = progress.callback();
  engine::LoadedModel loaded = engine::load_model(engine_options);
  progress.finish();
  engine::check_latency_plan(loaded, plan);

  std::vector<double> prefill, decode;
  engine::measure_latency(loaded, plan);  // warms caches and touches the cache's pages
  for (std::int64_t i = 0; i < options.bench_repeats; ++i) {
    const engine::LatencyRun run = engine::measure_latency(loaded, plan);
    prefill.push_back(static_cast<double>(plan.batch * plan.prefill) / run.prefill_seconds);
    decode.push_back(static_cast<double>(plan.batch * plan.decode) / run.decode_seconds);
  }
  const double bandwidth = kernels::measure_read_bandwidth(*loaded.pool);
  const double steps_per_s = median(decode) / static_cast<double>(plan.batch);
  const double cached =
      static_cast<double>(plan.depth + plan.prefill) + static_cast<double>(plan.decode) / 2;
  const double bytes = static_cast<double>(loaded.model->decode_bytes()) +
                       static_cast<double>(plan.batch * loaded.info.kv_bytes_per_token) * cached;
  const double share = bytes * steps_per_s / bandwidth;
  if (options.json) {
    const nlohmann::ordered_json report = {{"model", loaded.info.model_path},
                                           {"isa", loaded.info.isa},
                                           {"threads", loaded.info.threads},
                                           {"attention_backend", loaded.info.attention_backend},
                                           {"prefill", plan.prefill},
                                           {"decode", plan.decode},
                                           {"depth", plan.depth},
                                           {"batch", plan.batch},
                                           {"prefill_tokens_per_s", median(prefill)},
                                           {"decode_tokens_per_s", median(decode)},
                                           {"decode_bytes_per_step", bytes},
                                           {"decode_gb_per_s", bytes * steps_per_s / 1e9},
                                           {"memory_gb_per_s", bandwidth / 1e9},
                                           {"decode_share_of_memory", share}};
    fmt::print("{}\n", report.dump(2));
    return 0;
  }
  fmt::print("{} on {} ({} threads, {})\n", loaded.info.model_path, loaded.info.isa,
             loaded.info.threads, loaded.info.attention_backend);
  fmt::print("prefill {:5} tokens after {}: {:8.1f} tokens/s\n", plan.prefill, plan.depth,
             median(prefill));
  fmt::print(
      "decode  {:5} steps, batch {}: {:8.1f} tokens/s, {:.1f} GB/s = {:.0f} % of the memory's "
      "{:.1f} GB/s\n",
      plan.decode, plan.batch, median(decode), bytes * steps_per_s / 1e9, 100 * share,
      bandwidth / 1e9);
  return 0;
}

}  // namespace quern::cli
