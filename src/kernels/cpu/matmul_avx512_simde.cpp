// Test only: matmul_avx512.cpp compiled a second time, over SIMDe, under other names.

#define QUERN_SIMDE
#define prepare_bf16_avx512 prepare_bf16_avx512_simde
#define multiply_bf16_avx512 multiply_bf16_avx512_simde
#define multiply_q4_avx512 multiply_q4_avx512_simde
#define multiply_q8_avx512 multiply_q8_avx512_simde
#define multiply_q8sub_avx512 multiply_q8sub_avx512_simde
#define multiply_q5_avx512 multiply_q5_avx512_simde
#define multiply_q6_avx512 multiply_q6_avx512_simde
#include "kernels/cpu/matmul_avx512.cpp"
