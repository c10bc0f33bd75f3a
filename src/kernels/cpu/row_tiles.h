// Walks the panels and row tiles of one matmul call for the vector kernels: rows in chunks whose
// activations stay in the L2 cache, panels inside, tiles of at most kTileRows rows innermost.
#pragma once

#include "kernels/cpu/avx2_math.h"
#include "kernels/ops.h"

namespace quern::kernels {
namespace {

constexpr int kTileRows = 4;
constexpr std::int64_t kRowChunk = 128;

QUERN_INLINE const Int8Block* block_of(const std::byte* activations, std::int64_t stride, int row,
                                       std::int64_t block) {
  return reinterpret_cast<const Int8Block*>(activations + row * stride) + block;
}

// Kernel::tile<R, first>(weights, activations, stride, k, out) computes R rows × 16 outputs into
// out[R][16]; `first` says that the panel comes from memory and is worth prefetching.
template <typename Kernel, int R>
QUERN_INLINE void run_tile(const MatmulArgs& args, std::int64_t panel, std::int64_t row,
                           bool first) {
  alignas(64) float out[R * kPanel];
  const std::byte* weights = args.weights + panel * args.panel_bytes;
  const std::byte* activations = args.activations + row * args.activation_stride;
  if (first) {
    Kernel::template tile<R, true>(weights, activations, args.activation_stride, args.k, out);
  } else {
    Kernel::template tile<R, false>(weights, activations, args.activation_stride, args.k, out);
  }
  const std::int64_t left = args.outputs - panel * kPanel;
  const int count = left < kPanel ? static_cast<int>(left) : kPanel;
  for (int r = 0; r < R; ++r) {
    float* to = args.out + (row + r) * args.out_stride + panel * kPanel;
    for (int lane = 0; lane < count; ++lane) to[lane] = out[r * kPanel + lane];
  }
}

template <typename Kernel>
QUERN_INLINE void run_tiles(const MatmulArgs& args) {
  for (std::int64_t chunk = 0; chunk < args.rows; chunk += kRowChunk) {
    const std::int64_t end = args.rows - chunk < kRowChunk ? args.rows : chunk + kRowChunk;
    for (std::int64_t panel = args.panel_begin; panel < args.panel_end; ++panel) {
      std::int64_t row = chunk;
      for (; row + kTileRows <= end; row += kTileRows) {
        run_tile<Kernel, kTileRows>(args, panel, row, row == 0);
      }
      switch (end - row) {
        case 3: run_tile<Kernel, 3>(args, panel, row, row == 0); break;
        case 2: run_tile<Kernel, 2>(args, panel, row, row == 0); break;
        case 1: run_tile<Kernel, 1>(args, panel, row, row == 0); break;
        default: break;
      }
    }
  }
}

}  // namespace
}  // namespace quern::kernels
