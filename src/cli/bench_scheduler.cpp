// `quern bench scheduler`: what scheduling and the prefix cache cost, beside their targets.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/commands.h"
#include "engine/scheduler_benchmark.h"

namespace quern::cli {

int bench_scheduler_command(const Options& options) {
  const auto figures =
      engine::benchmark_scheduler(static_cast<int>(options.bench_scheduler_repeats));
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const engine::SchedulerFigure& figure : figures) {
      list.push_back({{"name", figure.name},
                      {"median_us", figure.median_us},
                      {"worst_us", figure.worst_us},
                      {"target_us", figure.target_us},
                      {"target_of", figure.worst_counts ? "worst" : "median"}});
    }
    fmt::print("{}\n", list.dump(2));
    return 0;
  }
  fmt::print("{:48} {:>10} {:>10}  {}\n", "operation", "median us", "worst us", "target");
  for (const engine::SchedulerFigure& figure : figures) {
    fmt::print("{:48} {:10.2f} {:10.1f}  {} below {:.0f}\n", figure.name, figure.median_us,
               figure.worst_us, figure.worst_counts ? "worst" : "median", figure.target_us);
  }
  return 0;
}

}  // namespace quern::cli
