// The AVX2 kernels, by name: the AVX-512 table falls back to them where it has none of its own.
#pragma once

#include "kernels/ops.h"

namespace quern::kernels {

void prepare_bf16_avx2(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                       std::int64_t out_stride);
void prepare_int8_avx2(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                       std::int64_t out_stride);
void multiply_f32_avx2(const MatmulArgs& args);
void multiply_f16_avx2(const MatmulArgs& args);
void multiply_bf16_avx2(const MatmulArgs& args);
void multiply_q4_avx2(const MatmulArgs& args);
void multiply_q8_avx2(const MatmulArgs& args);
void multiply_q8sub_avx2(const MatmulArgs& args);
void multiply_q5_avx2(const MatmulArgs& args);
void multiply_q6_avx2(const MatmulArgs& args);

void attend_bf16_avx2(const AttendArgs& args, int rows);
void attend_f32_avx2(const AttendArgs& args, int rows);
void merge_avx2(float* maximum, float* sum, float* out, float other_maximum, float other_sum,
                const float* other_out, std::int64_t dim);
void attend_latent_bf16_avx2(const LatentArgs& args);
void attend_latent_f32_avx2(const LatentArgs& args);
void attend_latent_f8_avx2(const LatentArgs& args);
void merge_lanes_avx2(float* maximum, float* sum, float* out, const float* other_maximum,
                      const float* other_sum, const float* other_out, std::int64_t columns);
void widen_keys_i8_avx2(const std::byte* x, const float* scales, std::int64_t stride,
                        std::byte* out);
void widen_values_i8_avx2(const std::byte* x, const float* scales, std::int64_t stride,
                          std::byte* out);
void widen_f8_avx2(const std::byte* x, std::int64_t count, std::byte* out);
void rms_norm_avx2(const float* x, const float* weight, float eps, std::int64_t rows,
                   std::int64_t dim, float* out);
void add_avx2(float* x, const float* y, std::int64_t count);
void silu_mul_avx2(const float* gate, const float* up, std::int64_t count, float* out);
float maximum_avx2(const float* x, std::int64_t count);
void exponentials_avx2(const float* x, float most, float scale, std::int64_t count, float* out);

}  // namespace quern::kernels
