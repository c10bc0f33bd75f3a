// From the flags of scheduling to the scheduler's limits.
#pragma once

#include "quern/engine.h"
#include "scheduler/scheduler.h"

namespace quern::engine {

// Throws: kInvalidFlagValue for a policy that is none.
scheduler::Policy policy_of(const EngineOptions& options);

// `info` holds what was chosen for this model and machine.
scheduler::Limits scheduler_limits(const EngineOptions& options, const EngineInfo& info);

}  // namespace quern::engine
