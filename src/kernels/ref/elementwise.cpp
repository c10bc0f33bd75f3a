// Scalar norms and activations, and the reference table.

#include <cmath>

#include "kernels/dispatch.h"
#include "kernels/ref/ref_ops.h"

namespace quern::kernels {

void rms_norm_ref(const float* x, const float* weight, float eps, std::int64_t rows,
                  std::int64_t dim, float* out) {
  for (std::int64_t row = 0; row < rows; ++row, x += dim, out += dim) {
    float squares = 0.0f;
    for (std::int64_t i = 0; i < dim; ++i) squares = std::fma(x[i], x[i], squares);
    const float scale = 1.0f / std::sqrt(squares / static_cast<float>(dim) + eps);
    for (std::int64_t i = 0; i < dim; ++i) out[i] = x[i] * scale * weight[i];
  }
}

void add_ref(float* x, const float* y, std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) x[i] += y[i];
}

void silu_mul_ref(const float* gate, const float* up, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) out[i] = gate[i] / (1.0f + std::exp(-gate[i])) * up[i];
}

float maximum_ref(const float* x, std::int64_t count) {
  float most = x[0];
  for (std::int64_t i = 1; i < count && !std::isnan(most); ++i) {
    if (!(x[i] <= most)) most = x[i];
  }
  return most;
}

void exponentials_ref(const float* x, float most, float scale, std::int64_t count, float* out) {
  for (std::int64_t i = 0; i < count; ++i) {
    const float power = (x[i] - most) * scale;
    out[i] = power < -126.0f ? 0.0f : std::exp2(power);
  }
}

const Ops kRefOps = {
    .isa = Isa::kRef,
    .name = "portable",
    .prepare = {prepare_f32_ref, prepare_bf16_ref, prepare_int8_ref},
    .multiply = {multiply_f32_ref, multiply_f16_ref, multiply_bf16_ref, multiply_q4_ref,
                 multiply_q8_ref, multiply_q8sub_ref, multiply_q5_ref, multiply_q6_ref},
    .attend_bf16 = attend_bf16_ref,
    .attend_f32 = attend_f32_ref,
    .merge = merge_ref,
    .latent = {{pack_lanes_f32_ref, attend_latent_bf16_ref},
               {pack_lanes_f32_ref, attend_latent_f32_ref},
               {pack_lanes_f32_ref, attend_latent_f8_ref}},
    .merge_lanes = merge_lanes_ref,
    .pack_keys_bf16 = pack_lanes_bf16_ref,
    .pack_keys_f32 = pack_lanes_f32_ref,
    .pack_values_bf16 = pack_values_bf16_ref,
    .widen_keys_i8 = widen_keys_i8_ref,
    .widen_values_i8 = widen_values_i8_ref,
    .widen_f8 = widen_f8_ref,
    .rms_norm = rms_norm_ref,
    .add = add_ref,
    .silu_mul = silu_mul_ref,
    .maximum = maximum_ref,
    .exponentials = exponentials_ref,
};

}  // namespace quern::kernels
