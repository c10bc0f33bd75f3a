// What scheduling costs without a model: the prefix cache's operations and a step's plan and
// commit. Behind `quern bench scheduler`.
#pragma once

#include <string>
#include <vector>

namespace quern::engine {

struct SchedulerFigure {
  std::string name;
  double median_us = 0;  // of one operation
  double worst_us = 0;
  double target_us = 0;  // of the median, or of the worst where `worst_counts`
  bool worst_counts = false;
};

// Takes some seconds; one thread. `repeats` of each operation, at least 1.
std::vector<SchedulerFigure> benchmark_scheduler(int repeats);

}  // namespace quern::engine
