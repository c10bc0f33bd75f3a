// quern's own CPU backend: tiled online softmax over packed pages. Keys are walked in blocks of 64
// at absolute positions and merged in splits of 256, ascending, in prefill and in decode alike, so
// that a token's bits depend on nothing but its own sequence.
#pragma once

#include <memory>

#include "attention/backend.h"

namespace quern::attention {

std::unique_ptr<AttentionBackend> make_cpu_flash(ThreadPool& pool);
LayoutList cpu_flash_layouts(const Needs& needs);

}  // namespace quern::attention
