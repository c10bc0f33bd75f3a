// The reference backend, under SGLang's name: plain f32 loops over plain rows, the oracle that
// every other backend is held against. Any page size, any head size; speed is not its purpose.
#pragma once

#include <memory>

#include "attention/backend.h"

namespace quern::attention {

std::unique_ptr<AttentionBackend> make_torch_native(ThreadPool& pool);
LayoutList torch_native_layouts(const Needs& needs);

}  // namespace quern::attention
