// Test only: mla_avx512.cpp compiled a second time, over SIMDe, under other names.

#define QUERN_SIMDE
#define attend_latent_bf16_avx512 attend_latent_bf16_avx512_simde
#define attend_latent_f8_avx512 attend_latent_f8_avx512_simde
#define pack_lanes_bf16_avx512 pack_lanes_bf16_avx512_simde
#define pack_values_bf16_avx512 pack_values_bf16_avx512_simde
#include "kernels/cpu/mla_avx512.cpp"
