// The AVX-512 kernels, by name.
#pragma once

#include "kernels/ops.h"

namespace quern::kernels {

void prepare_bf16_avx512(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                         std::int64_t out_stride);
void attend_bf16_avx512(const AttendArgs& args, int rows);
void multiply_bf16_avx512(const MatmulArgs& args);
void multiply_q4_avx512(const MatmulArgs& args);
void multiply_q8_avx512(const MatmulArgs& args);
void multiply_q8sub_avx512(const MatmulArgs& args);

}  // namespace quern::kernels
