// The tables of each instruction set, for dispatch.cpp and the tests that run them by hand.
#pragma once

#include "kernels/ops.h"

namespace quern::kernels {

extern const Ops kRefOps;
#if defined(__x86_64__)
extern const Ops kAvx2Ops;
extern const Ops kAvx512Ops;
#endif

}  // namespace quern::kernels
