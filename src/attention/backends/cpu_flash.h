// quern's own CPU backend: tiled online softmax over packed pages. Keys are walked in blocks of 64
// at absolute positions and merged in splits of 256, ascending, in prefill and in decode alike, so
// that a token's bits depend on nothing but its own sequence. intel_amx is the same over a kernel
// of its own.
#pragma once

#include <memory>

#include "attention/backend.h"
#include "kernels/ops.h"

namespace quern::attention {

std::unique_ptr<AttentionBackend> make_cpu_flash(ThreadPool& pool);
LayoutList cpu_flash_layouts(const Needs& needs);

// What keys and values are stored as, where plain attention runs on quern's own kernels.
DType stored_type(KvType type);

// The same algorithm under another contract: bf16 pages are attended by `attend`, at most `rows`
// query rows a call. `info` lives as long as the backend. Requires: rows ≤ kernels::kTileRows, and
// over f32 pages ≤ kernels::kAttendRows.
std::unique_ptr<AttentionBackend> make_tiled(ThreadPool& pool, const BackendInfo& info,
                                             kernels::Attend attend, int rows);

}  // namespace quern::attention
