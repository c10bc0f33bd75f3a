// What the benchmarks of matrix products are made of: random weights of a stored type, random
// inputs, and what bounds the arithmetic of a packed format.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/dtype.h"
#include "engine/kernel_benchmark.h"
#include "kernels/ops.h"

namespace quern::engine {

// So many bytes of weights are run through in turn that no cache of the processor holds them.
inline constexpr std::int64_t kColdBytes = std::int64_t{128} << 20;

// Bytes of `type` that decode to small finite numbers: random but for the halves that scale.
std::vector<std::byte> random_weights(DType type, std::int64_t count, unsigned seed);
std::vector<float> random_inputs(std::int64_t count);

Limit arithmetic_of(kernels::WeightFormat format);

}  // namespace quern::engine
