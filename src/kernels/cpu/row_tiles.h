// Walks the panels and row tiles of one matmul call for the vector kernels: rows in chunks whose
// activations stay in the L2 cache, panels inside, tiles of a few rows and panels innermost.
#pragma once

#include "kernels/cpu/avx2_math.h"
#include "kernels/ops.h"

namespace quern::kernels {
namespace {

constexpr std::int64_t kRowChunk = 128;
// How far ahead of its use a panel is fetched from memory: at full bandwidth about this much is
// under way. What lies behind a panel is the next one.
constexpr std::int64_t kAhead = 4096;
constexpr std::int64_t kFewRows = 8;  // beyond these, arithmetic binds and not memory

QUERN_INLINE void fetch_lines(const std::byte* at, int lines) {
  for (int i = 0; i < lines; ++i) {
    __builtin_prefetch(reinterpret_cast<const char*>(at) + 64 * i, 0, 3);
  }
}

QUERN_INLINE const Int8Block* block_of(const std::byte* activations, std::int64_t stride, int row,
                                       std::int64_t block) {
  return reinterpret_cast<const Int8Block*>(activations + row * stride) + block;
}

// A Kernel says how large its tiles are and computes them:
//   kRows, kPanels                     most rows and panels of one tile
//   tile<R, P, first>(weights, panel_bytes, activations, stride, k, out)
// fills out[R][16·P] from R rows and P panels that lie panel_bytes apart; `first` says that the
// panels come from memory and are worth prefetching.
template <typename Kernel, int R, int P>
QUERN_INLINE void run_tile(const MatmulArgs& args, std::int64_t panel, std::int64_t row) {
  alignas(64) float out[R * P * kPanel];
  const std::byte* weights = args.weights + panel * args.panel_bytes;
  const std::byte* activations = args.activations + row * args.activation_stride;
  if (row == 0) {
    Kernel::template tile<R, P, true>(weights, args.panel_bytes, activations,
                                      args.activation_stride, args.k, out);
  } else {
    Kernel::template tile<R, P, false>(weights, args.panel_bytes, activations,
                                       args.activation_stride, args.k, out);
  }
  const std::int64_t left = args.outputs - panel * kPanel;
  const int count = left < P * kPanel ? static_cast<int>(left) : P * kPanel;
  for (int r = 0; r < R; ++r) {
    float* to = args.out + (row + r) * args.out_stride + panel * kPanel;
    for (int lane = 0; lane < count; ++lane) to[lane] = out[r * P * kPanel + lane];
  }
}

// The last rows of a chunk: `left` of them, fewer than a whole tile.
template <typename Kernel, int R, int P>
QUERN_INLINE void run_rest(const MatmulArgs& args, std::int64_t panel, std::int64_t row,
                           std::int64_t left) {
  if constexpr (R > 0) {
    if (left == R) {
      run_tile<Kernel, R, P>(args, panel, row);
    } else {
      run_rest<Kernel, R - 1, P>(args, panel, row, left);
    }
  }
}

template <typename Kernel, int P>
QUERN_INLINE void run_panels(const MatmulArgs& args, std::int64_t panel, std::int64_t chunk,
                             std::int64_t end) {
  std::int64_t row = chunk;
  for (; row + Kernel::kRows <= end; row += Kernel::kRows) {
    run_tile<Kernel, Kernel::kRows, P>(args, panel, row);
  }
  run_rest<Kernel, Kernel::kRows - 1, P>(args, panel, row, end - row);
}

template <typename Kernel>
QUERN_INLINE void run_tiles(const MatmulArgs& args) {
  fetch_lines(args.weights + args.panel_begin * args.panel_bytes, kAhead / 64);
  for (std::int64_t chunk = 0; chunk < args.rows; chunk += kRowChunk) {
    const std::int64_t end = args.rows - chunk < kRowChunk ? args.rows : chunk + kRowChunk;
    std::int64_t panel = args.panel_begin;
    // Few rows wait for memory, which is read best as one stream; many are computed the faster the
    // more panels share a row's broadcasts.
    if (args.rows > kFewRows) {
      for (; panel + Kernel::kPanels <= args.panel_end; panel += Kernel::kPanels) {
        run_panels<Kernel, Kernel::kPanels>(args, panel, chunk, end);
      }
    }
    for (; panel < args.panel_end; ++panel) run_panels<Kernel, 1>(args, panel, chunk, end);
  }
}

}  // namespace
}  // namespace quern::kernels
