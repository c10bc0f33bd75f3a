// The backend for x86 processors with AMX: cpu_flash's algorithm and pages, with scores and values
// computed on bf16 tiles, 16 query rows at a time; latent attention absorbed is cpu_flash's,
// expanded it goes through the tiles too. Its speed has not been measured yet.
#pragma once

#include <memory>

#include "attention/backend.h"

namespace quern::attention {

extern const BackendInfo kIntelAmxInfo;

// On a simulated machine, where this one may lack AMX, it runs on cpu_flash's kernels.
std::unique_ptr<AttentionBackend> make_intel_amx(ThreadPool& pool);
LayoutList intel_amx_layouts(const Needs& needs);  // cpu_flash's, in bf16

}  // namespace quern::attention
