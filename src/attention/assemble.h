// From a plan to what runs it: one page layout that both halves read, and one backend that hands
// each sequence to its half. Backends of a simulated machine run on portable kernels here.
#pragma once

#include <memory>

#include "attention/plan.h"

namespace quern::attention {

// The page layout that all halves read. `needs` are the target's, with the KV type resolved.
// Requires: plan.fits(). Throws: kKvLayoutConflict where two halves share no layout.
cache::KvLayout layout_of(const Plan& plan, const Needs& needs);

// The backend uses `pool` as long as it lives.
std::unique_ptr<AttentionBackend> assemble(const Plan& plan, const cache::KvLayout& layout,
                                           ThreadPool& pool);

}  // namespace quern::attention
