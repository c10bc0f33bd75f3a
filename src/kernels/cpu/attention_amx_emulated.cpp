// Test only: attention_amx.cpp compiled a second time, over emulated tiles and SIMDe, under another
// name.

#define QUERN_SIMDE
#define QUERN_AMX_EMULATED
#define attend_bf16_amx attend_bf16_amx_emulated
#include "kernels/cpu/attention_amx.cpp"
