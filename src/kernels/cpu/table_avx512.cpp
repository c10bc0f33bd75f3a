// The AVX-512 table: its own matmuls and attention where they exist, AVX2 kernels for the rest.

#include "kernels/cpu/avx2_ops.h"
#include "kernels/cpu/avx512_ops.h"
#include "kernels/dispatch.h"
#include "kernels/ref/ref_ops.h"

namespace quern::kernels {

const Ops kAvx512Ops = {
    .isa = Isa::kAvx512,
    .name = "avx512",
    .prepare = {prepare_f32_ref, prepare_bf16_avx512, prepare_int8_avx2},
    .multiply = {multiply_f32_avx2, multiply_f16_avx2, multiply_bf16_avx512, multiply_q4_avx512,
                 multiply_q8_avx512, multiply_q8sub_avx512, multiply_q5_avx512, multiply_q6_avx512},
    .attend_bf16 = attend_bf16_avx512,
    .attend_f32 = attend_f32_avx2,
    .merge = merge_avx2,
    .latent = {{pack_lanes_bf16_avx512, attend_latent_bf16_avx512},
               {pack_lanes_f32_ref, attend_latent_f32_avx2},
               {pack_lanes_bf16_avx512, attend_latent_f8_avx512}},
    .merge_lanes = merge_lanes_avx2,
    .pack_keys_bf16 = pack_lanes_bf16_avx512,
    .pack_keys_f32 = pack_lanes_f32_ref,
    .pack_values_bf16 = pack_values_bf16_avx512,
    .widen_keys_i8 = widen_keys_i8_avx512,
    .widen_values_i8 = widen_values_i8_avx512,
    .widen_f8 = widen_f8_avx2,
    .rms_norm = rms_norm_avx2,
    .add = add_avx2,
    .silu_mul = silu_mul_avx2,
    .maximum = maximum_avx2,
    .exponentials = exponentials_avx2,
};

}  // namespace quern::kernels
