// Test only: widen_avx512.cpp compiled a second time, over SIMDe, under other names.

#define QUERN_SIMDE
#define widen_keys_i8_avx512 widen_keys_i8_avx512_simde
#define widen_values_i8_avx512 widen_values_i8_avx512_simde
#include "kernels/cpu/widen_avx512.cpp"
