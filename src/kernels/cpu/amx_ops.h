// The AMX kernel, by name.
#pragma once

#include "kernels/ops.h"

namespace quern::kernels {

void attend_bf16_amx(const AttendArgs& args, int rows);

}  // namespace quern::kernels
