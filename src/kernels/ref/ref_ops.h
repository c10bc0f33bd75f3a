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

void attend_bf16_ref(const AttendArgs& args, int rows);
void attend_f32_ref(const AttendArgs& args, int rows);
void merge_ref(float* maximum, float* sum, float* out, float other_maximum, float other_sum,
               const float* other_out, std::int64_t dim);
void rms_norm_ref(const float* x, const float* weight, float eps, std::int64_t rows,
                  std::int64_t dim, float* out);
void add_ref(float* x, const float* y, std::int64_t count);
void silu_mul_ref(const float* gate, const float* up, std::int64_t count, float* out);

}  // namespace quern::kernels
