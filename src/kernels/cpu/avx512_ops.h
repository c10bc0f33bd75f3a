// The AVX-512 kernels, by name.
#pragma once

#include "kernels/ops.h"

namespace quern::kernels {

void prepare_bf16_avx512(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                         std::int64_t out_stride);
void attend_bf16_avx512(const AttendArgs& args, int rows);
void attend_latent_bf16_avx512(const LatentArgs& args);
void attend_latent_f8_avx512(const LatentArgs& args);
void pack_lanes_bf16_avx512(const float* x, std::int64_t stride, int lanes, std::int64_t dim,
                            float factor, std::byte* out);
void pack_values_bf16_avx512(const float* x, std::int64_t stride, int tokens, std::int64_t dim,
                             std::int64_t value_stride, std::byte* out);
void widen_keys_i8_avx512(const std::byte* x, const float* scales, std::int64_t stride,
                          std::byte* out);
void widen_values_i8_avx512(const std::byte* x, const float* scales, std::int64_t stride,
                            std::byte* out);
void multiply_bf16_avx512(const MatmulArgs& args);
void multiply_q4_avx512(const MatmulArgs& args);
void multiply_q8_avx512(const MatmulArgs& args);
void multiply_q8sub_avx512(const MatmulArgs& args);
void multiply_q5_avx512(const MatmulArgs& args);
void multiply_q6_avx512(const MatmulArgs& args);

}  // namespace quern::kernels
