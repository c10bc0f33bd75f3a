// Test only: attention_avx512.cpp compiled a second time, over SIMDe, under another name.

#define QUERN_SIMDE
#define attend_bf16_avx512 attend_bf16_avx512_simde
#include "kernels/cpu/attention_avx512.cpp"
