// The AMX intrinsics: the compiler's, or plain C++ over a thread's own tiles where a test runs the
// kernel on a processor without AMX. The emulation ends the program where the processor would
// fault.
#pragma once

#include <immintrin.h>

#if defined(QUERN_AMX_EMULATED)
#include <cstdio>

namespace {

struct AmxTiles {
  bool configured;
  int rows[8], bytes[8];  // of a row
  unsigned char data[8][16][64];
};
thread_local AmxTiles amx_tiles;

inline void amx_demand(bool holds, const char* what) {
  if (holds) return;
  std::fprintf(stderr, "AMX would fault: %s\n", what);
  __builtin_trap();
}

inline void amx_demand_tile(int tile) {
  amx_demand(amx_tiles.configured, "no configuration is loaded");
  amx_demand(amx_tiles.rows[tile] > 0, "the tile has no rows");
}

// The 64 bytes of a configuration: palette, start row, 14 zeros, 16 widths, 16 heights.
inline void amx_loadconfig(const void* config) {
  const auto* bytes = static_cast<const unsigned char*>(config);
  amx_demand(bytes[0] == 1, "palette 1 is the one with tiles");
  for (int i = 1; i < 16; ++i) amx_demand(bytes[i] == 0, "a reserved byte is set");
  for (int tile = 0; tile < 16; ++tile) {
    const int width = bytes[16 + 2 * tile] | bytes[17 + 2 * tile] << 8, rows = bytes[48 + tile];
    amx_demand(width <= 64 && rows <= 16 && (width == 0) == (rows == 0), "a tile's shape");
    amx_demand(tile < 8 || rows == 0, "there are 8 tiles");
    if (tile >= 8) continue;
    amx_tiles.rows[tile] = rows;
    amx_tiles.bytes[tile] = width;
  }
  amx_tiles.configured = true;
  __builtin_memset(amx_tiles.data, 0, sizeof amx_tiles.data);
}

inline void amx_release() { amx_tiles.configured = false; }

inline void amx_zero(int tile) {
  amx_demand_tile(tile);
  __builtin_memset(amx_tiles.data[tile], 0, sizeof amx_tiles.data[tile]);
}

inline void amx_loadd(int tile, const void* base, long stride) {
  amx_zero(tile);
  for (int row = 0; row < amx_tiles.rows[tile]; ++row) {
    __builtin_memcpy(amx_tiles.data[tile][row], static_cast<const char*>(base) + row * stride,
                     static_cast<unsigned>(amx_tiles.bytes[tile]));
  }
}

inline void amx_stored(int tile, void* base, long stride) {
  amx_demand_tile(tile);
  for (int row = 0; row < amx_tiles.rows[tile]; ++row) {
    __builtin_memcpy(static_cast<char*>(base) + row * stride, amx_tiles.data[tile][row],
                     static_cast<unsigned>(amx_tiles.bytes[tile]));
  }
}

// Denormals count as zero, in and out.
inline float amx_flush(float x) { return __builtin_fabsf(x) < 0x1p-126f ? 0.0f * x : x; }

// Value `half` (0, 1) of pair `i` of a row.
inline float amx_bf16(const unsigned char* row, int i, int half) {
  unsigned word;
  __builtin_memcpy(&word, row + 4 * i, 4);
  word = half ? word & 0xFFFF0000u : word << 16;
  float value;
  __builtin_memcpy(&value, &word, 4);
  return amx_flush(value);
}

// The first and the second values of the pairs are summed apart, then together, then added.
inline void amx_dpbf16ps(int to, int left, int right) {
  amx_demand_tile(to);
  amx_demand_tile(left);
  amx_demand_tile(right);
  const AmxTiles& t = amx_tiles;
  const int pairs = t.bytes[left] / 4, columns = t.bytes[to] / 4;
  amx_demand(t.rows[left] == t.rows[to], "as many rows left as in the result");
  amx_demand(t.rows[right] == pairs, "as many rows right as pairs left");
  amx_demand(t.bytes[right] == t.bytes[to], "as many columns right as in the result");
  for (int row = 0; row < t.rows[to]; ++row) {
    float sums[2][16] = {};
    for (int pair = 0; pair < pairs; ++pair) {
      for (int half = 0; half < 2; ++half) {
        const float a = amx_bf16(t.data[left][row], pair, half);
        for (int n = 0; n < columns; ++n) {
          sums[half][n] =
              amx_flush(__builtin_fmaf(a, amx_bf16(t.data[right][pair], n, half), sums[half][n]));
        }
      }
    }
    float result[16];
    __builtin_memcpy(result, t.data[to][row], sizeof result);
    for (int n = 0; n < columns; ++n) {
      result[n] = amx_flush(amx_flush(result[n]) + amx_flush(sums[0][n] + sums[1][n]));
    }
    __builtin_memcpy(amx_tiles.data[to][row], result, sizeof result);
  }
}

}  // namespace

#undef _tile_loadd
#undef _tile_stored
#undef _tile_zero
#undef _tile_dpbf16ps
#define _tile_loadconfig amx_loadconfig
#define _tile_release amx_release
#define _tile_loadd amx_loadd
#define _tile_stored amx_stored
#define _tile_zero amx_zero
#define _tile_dpbf16ps amx_dpbf16ps
#endif

// GCC's intrinsics do not say that they read memory, so what was written must be told to be there.
#define QUERN_MEMORY_SETTLES __asm__ volatile("" ::: "memory")
// Tiles are named by number; the compilers want it written out.
#define QUERN_TILE_LOAD(tile, base, stride) \
  do {                                      \
    QUERN_MEMORY_SETTLES;                   \
    _tile_loadd(tile, base, stride);        \
    QUERN_MEMORY_SETTLES;                   \
  } while (0)
