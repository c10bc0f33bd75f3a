// Seeded random data for the kernel tests.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

namespace quern::kernels {

inline std::vector<float> random_floats(std::int64_t count, unsigned seed, float scale = 1.0f) {
  std::mt19937 engine(seed);
  std::normal_distribution<float> normal(0.0f, scale);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(engine);
  return values;
}

}  // namespace quern::kernels
