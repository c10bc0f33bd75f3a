// Backends that quern knows by name, contract and messages, but has no kernels for. What each
// serves is what SGLang's backend of that name serves.
#pragma once

#include <span>

#include "attention/backend.h"

namespace quern::attention {

// In order of preference on the machines they are for.
std::span<const BackendInfo> known_gpu_backends();

}  // namespace quern::attention
