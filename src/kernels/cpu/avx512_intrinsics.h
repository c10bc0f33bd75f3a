// The AVX-512 intrinsics: the compiler's, or SIMDe's portable bodies where a test runs these
// kernels on a processor without AVX-512.
#pragma once

#if defined(QUERN_SIMDE)
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#else
#include <immintrin.h>
#endif
