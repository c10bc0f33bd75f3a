// The scalar kernels, by name: the reference table is made of them, and a table of another
// instruction set falls back to one where it has none of its own.
#pragma once

#include "kernels/ops.h"

namespace quern::kernels {

void prepare_f32_ref(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                     std::int64_t out_stride);
void prepare_bf16_ref(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                      std::int64_t out_stride);
void prepare_int8_ref(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                      std::int64_t out_stride);
void multiply_f32_ref(const MatmulArgs& args);
void multiply_f16_ref(const MatmulArgs& args);
void multiply_bf16_ref(const MatmulArgs& args);
void multiply_q4_ref(const MatmulArgs& args);
void multiply_q8_ref(const MatmulArgs& args);
void multiply_q8sub_ref(const MatmulArgs& args);
void multiply_q5_ref(const MatmulArgs& args);
void multiply_q6_ref(const MatmulArgs& args);

void attend_bf16_ref(const AttendArgs& args, int rows);
void attend_f32_ref(const AttendArgs& args, int rows);
void merge_ref(float* maximum, float* sum, float* out, float other_maximum, float other_sum,
               const float* other_out, std::int64_t dim);
void attend_latent_bf16_ref(const LatentArgs& args);
void attend_latent_f32_ref(const LatentArgs& args);
void attend_latent_f8_ref(const LatentArgs& args);
void merge_lanes_ref(float* maximum, float* sum, float* out, const float* other_maximum,
                     const float* other_sum, const float* other_out, std::int64_t columns);
void pack_lanes_bf16_ref(const float* x, std::int64_t stride, int lanes, std::int64_t dim,
                         float factor, std::byte* out);
void pack_lanes_f32_ref(const float* x, std::int64_t stride, int lanes, std::int64_t dim,
                        float factor, std::byte* out);
void pack_values_bf16_ref(const float* x, std::int64_t stride, int tokens, std::int64_t dim,
                          std::int64_t value_stride, std::byte* out);
void widen_keys_i8_ref(const std::byte* x, const float* scales, std::int64_t stride,
                       std::byte* out);
void widen_values_i8_ref(const std::byte* x, const float* scales, std::int64_t stride,
                         std::byte* out);
void widen_f8_ref(const std::byte* x, std::int64_t count, std::byte* out);
void rms_norm_ref(const float* x, const float* weight, float eps, std::int64_t rows,
                  std::int64_t dim, float* out);
void add_ref(float* x, const float* y, std::int64_t count);
void silu_mul_ref(const float* gate, const float* up, std::int64_t count, float* out);
float maximum_ref(const float* x, std::int64_t count);
void exponentials_ref(const float* x, float most, float scale, std::int64_t count, float* out);

}  // namespace quern::kernels
