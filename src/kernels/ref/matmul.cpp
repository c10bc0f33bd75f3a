// Scalar matmul: the definition that every other kernel is held against, and what runs where the
// processor has no AVX2. The order of float operations is the contract of packed_matrix.h's
// formats: per output, K ascending, one fused multiply-add a value (or a block, for integers).

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "kernels/packed_matrix.h"
#include "kernels/ref/ref_ops.h"

namespace quern::kernels {
namespace {

float half_at(const std::byte* data, int index) {
  std::uint16_t bits;
  std::memcpy(&bits, data + 2 * index, 2);
  return f32_from_f16(bits);
}

float float_at(const std::byte* data, std::int64_t index) {
  float value;
  std::memcpy(&value, data + 4 * index, 4);
  return value;
}

float bf16_at(const std::byte* data, std::int64_t index) {
  std::uint16_t bits;
  std::memcpy(&bits, data + 2 * index, 2);
  return f32_from_bf16(bits);
}

// Calls dot(panel, lane, activations) for every output asked for.
template <typename Dot>
void each_output(const MatmulArgs& args, Dot dot) {
  for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
    const std::byte* weights = args.weights + panel * args.panel_bytes;
    for (std::int64_t row = 0; row < args.rows; ++row) {
      const std::byte* activations = args.activations + row * args.activation_stride;
      for (int lane = 0; lane < kPanel && panel * kPanel + lane < args.outputs; ++lane) {
        args.out[row * args.out_stride + panel * kPanel + lane] = dot(weights, lane, activations);
      }
    }
  }
}

int quad_sum(const std::int8_t* x, const std::byte* quads, int lane, int begin, int end) {
  int sum = 0;
  for (int k = begin; k < end; ++k) {
    sum += x[k] * static_cast<std::int8_t>(quads[64 * (k / 4) + 4 * lane + k % 4]);
  }
  return sum;
}

// kQ4 and kQ5: unsigned weights with a scale and a minimum.
void multiply_min(const MatmulArgs& args, int bits) {
  each_output(args, [&](const std::byte* weights, int lane, const std::byte* activations) {
    const auto* blocks = reinterpret_cast<const Int8Block*>(activations);
    float total = 0.0f;
    for (std::int64_t b = 0; b < args.k / kBlock; ++b, weights += plane_bytes(bits)) {
      int sum = 0;
      for (int k = 0; k < kBlock; ++k) {
        sum += blocks[b].q[k] * plane_value(weights + 64, bits, lane, k);
      }
      total = std::fma(static_cast<float>(sum), half_at(weights, lane) * blocks[b].scale, total);
      total = std::fma(half_at(weights + 32, lane), blocks[b].scaled_sum, total);
    }
    return total;
  });
}

}  // namespace

void prepare_f32_ref(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                     std::int64_t out_stride) {
  for (std::int64_t row = 0; row < rows; ++row) {
    std::memcpy(out + row * out_stride, x + row * k, static_cast<size_t>(k) * 4);
  }
}

void prepare_bf16_ref(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                      std::int64_t out_stride) {
  for (std::int64_t row = 0; row < rows; ++row) {
    auto* values = reinterpret_cast<float*>(out + row * out_stride);
    for (std::int64_t i = 0; i < k; ++i) values[i] = f32_from_bf16(bf16_from_f32(x[row * k + i]));
    if (k % 2 != 0) values[k] = 0.0f;
  }
}

void prepare_int8_ref(const float* x, std::int64_t rows, std::int64_t k, std::byte* out,
                      std::int64_t out_stride) {
  for (std::int64_t row = 0; row < rows; ++row) {
    auto* blocks = reinterpret_cast<Int8Block*>(out + row * out_stride);
    for (std::int64_t b = 0; b < k / kBlock; ++b) {
      const float* values = x + row * k + b * kBlock;
      Int8Block& block = blocks[b];
      float most = 0.0f;
      bool finite = true;
      for (int i = 0; i < kBlock; ++i) {
        most = std::max(most, std::fabs(values[i]));
        finite = finite && std::isfinite(values[i]);
      }
      block.scale = most / 127.0f;
      const float inverse = most > 0.0f ? 127.0f / most : 0.0f;
      block.sum = block.sum_16 = 0;
      for (int i = 0; i < kBlock; ++i) {
        const float scaled = finite ? std::nearbyint(values[i] * inverse) : 0.0f;
        block.q[i] = static_cast<std::int8_t>(std::clamp(scaled, -127.0f, 127.0f));
        block.sum += block.q[i];
        if (i < 16) block.sum_16 += block.q[i];
      }
      // A value that is not finite makes the whole block NaN: the fault must show, not vanish.
      if (!finite) block.scale = NAN;
      block.scaled_sum = block.scale * static_cast<float>(block.sum);
    }
  }
}

void multiply_f32_ref(const MatmulArgs& args) {
  each_output(args, [&](const std::byte* weights, int lane, const std::byte* x) {
    float sum = 0.0f;
    for (std::int64_t k = 0; k < args.k; ++k) {
      sum = std::fma(float_at(x, k), float_at(weights, k * 16 + lane), sum);
    }
    return sum;
  });
}

void multiply_f16_ref(const MatmulArgs& args) {
  each_output(args, [&](const std::byte* weights, int lane, const std::byte* x) {
    float sum = 0.0f;
    for (std::int64_t k = 0; k < args.k; ++k) {
      sum = std::fma(float_at(x, k), half_at(weights + k * 32, lane), sum);
    }
    return sum;
  });
}

void multiply_bf16_ref(const MatmulArgs& args) {
  each_output(args, [&](const std::byte* weights, int lane, const std::byte* x) {
    float sum = 0.0f;
    for (std::int64_t k = 0; k < args.k; ++k) {
      sum = std::fma(float_at(x, k), bf16_at(weights, k / 2 * 32 + 2 * lane + k % 2), sum);
    }
    return sum;
  });
}

void multiply_q4_ref(const MatmulArgs& args) { multiply_min(args, 4); }
void multiply_q5_ref(const MatmulArgs& args) { multiply_min(args, 5); }

void multiply_q6_ref(const MatmulArgs& args) {
  each_output(args, [&](const std::byte* weights, int lane, const std::byte* activations) {
    const auto* blocks = reinterpret_cast<const Int8Block*>(activations);
    float total = 0.0f;
    for (std::int64_t b = 0; b < args.k / kBlock; ++b, weights += plane_bytes(6)) {
      for (int half = 0; half < 2; ++half) {
        int sum = 0;
        for (int k = 16 * half; k < 16 * half + 16; ++k) {
          sum += blocks[b].q[k] * (plane_value(weights + 64, 6, lane, k) - 32);
        }
        const float scale = half_at(weights + 32 * half, lane) * blocks[b].scale;
        total = std::fma(static_cast<float>(sum), scale, total);
      }
    }
    return total;
  });
}

void multiply_q8_ref(const MatmulArgs& args) {
  each_output(args, [&](const std::byte* weights, int lane, const std::byte* activations) {
    const auto* blocks = reinterpret_cast<const Int8Block*>(activations);
    float total = 0.0f;
    for (std::int64_t b = 0; b < args.k / kBlock; ++b, weights += 544) {
      const int sum = quad_sum(blocks[b].q, weights + 32, lane, 0, kBlock);
      total = std::fma(static_cast<float>(sum), half_at(weights, lane) * blocks[b].scale, total);
    }
    return total;
  });
}

void multiply_q8sub_ref(const MatmulArgs& args) {
  each_output(args, [&](const std::byte* weights, int lane, const std::byte* activations) {
    const auto* blocks = reinterpret_cast<const Int8Block*>(activations);
    float total = 0.0f;
    for (std::int64_t b = 0; b < args.k / kBlock; ++b, weights += 704) {
      for (int half = 0; half < 2; ++half) {
        const int sum = quad_sum(blocks[b].q, weights + 192, lane, 16 * half, 16 * half + 16);
        const float scale = float_at(weights, 16 * half + lane) * blocks[b].scale;
        total = std::fma(static_cast<float>(sum), scale, total);
      }
      total = std::fma(float_at(weights, 32 + lane), blocks[b].scaled_sum, total);
    }
    return total;
  });
}

}  // namespace quern::kernels
