#include "engine/scheduling.h"

#include <algorithm>

#include "base/error.h"
#include "base/errors/base.h"
#include "engine/startup.h"

namespace quern::engine {

scheduler::Policy policy_of(const EngineOptions& options) {
  using scheduler::Policy;
  if (options.enable_priority_scheduling || options.schedule_policy == "priority") {
    return Policy::kPriority;
  }
  if (options.schedule_policy == "fcfs") return Policy::kFcfs;
  if (options.schedule_policy == "lpm") return Policy::kLpm;
  throw Error(errors::kInvalidFlagValue, {{"flag", "--schedule-policy"},
                                          {"value", options.schedule_policy},
                                          {"allowed", "fcfs, lpm, priority"}});
}

scheduler::Limits scheduler_limits(const EngineOptions& options, const EngineInfo& info) {
  return {.max_running = info.max_running_requests,
          .max_prefill_tokens = std::min(info.chunked_prefill_size, info.max_prefill_tokens),
          .max_prompt_rows = kMaxPromptRows,
          .page_size = static_cast<std::int32_t>(info.page_size),
          .radix_cache = !options.disable_radix_cache,
          .policy = policy_of(options),
          .low_priority_first = options.schedule_low_priority_values_first,
          .preemption_threshold = options.disable_priority_preemption
                                      ? -1
                                      : options.priority_scheduling_preemption_threshold,
          .conservativeness = options.schedule_conservativeness,
          .mixed = !options.disable_mixed_chunk};
}

}  // namespace quern::engine
