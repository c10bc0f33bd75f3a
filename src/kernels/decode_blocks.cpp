#include "kernels/decode_blocks.h"

#include <algorithm>
#include <cstring>

#include "base/error.h"

namespace quern::kernels {
namespace {

float half_at(const std::byte* data) {
  std::uint16_t bits;
  std::memcpy(&bits, data, 2);
  return f32_from_f16(bits);
}

// Eight bytes as one word: the inner loops of the K-quants.
constexpr std::uint64_t kOnes = 0x0101010101010101;

std::uint64_t word_at(const std::byte* data) {
  std::uint64_t word;
  std::memcpy(&word, data, 8);
  return word;
}

// Each byte less `offset`. Requires: bytes below 128 and no difference below −128.
std::uint64_t less(std::uint64_t word, unsigned offset) {
  return ((word | 128 * kOnes) - offset * kOnes) ^ 128 * kOnes;
}

int byte_at(const std::byte* data, int i) { return std::to_integer<int>(data[i]); }

// Q4_0, Q4_1: nibbles, low half of a byte is value i, high half value i + 16. Q5 adds a fifth bit.
void decode_nibbles(DType type, const std::byte* data, float* out) {
  const bool has_minimum = type == DType::kQ4_1 || type == DType::kQ5_1;
  const bool five = type == DType::kQ5_0 || type == DType::kQ5_1;
  const float scale = half_at(data), minimum = has_minimum ? half_at(data + 2) : 0.0f;
  data += has_minimum ? 4 : 2;
  std::uint32_t fifth = 0;
  if (five) {
    std::memcpy(&fifth, data, 4);
    data += 4;
  }
  const int offset = has_minimum ? 0 : (five ? 16 : 8);
  for (int i = 0; i < 32; ++i) {
    int q = i < 16 ? byte_at(data, i) & 15 : byte_at(data, i - 16) >> 4;
    q |= static_cast<int>(fifth >> i & 1u) << 4;
    out[i] = scale * static_cast<float>(q - offset) + minimum;
  }
}

void decode_q8_0(const std::byte* data, float* out) {
  const float scale = half_at(data);
  for (int i = 0; i < 32; ++i) {
    out[i] = scale * static_cast<float>(static_cast<std::int8_t>(byte_at(data, 2 + i)));
  }
}

// The 6-bit scales and minima of Q4_K and Q5_K: 8 pairs in 12 bytes.
void unpack_scales(const std::byte* packed, int* scales, int* minima) {
  for (int i = 0; i < 4; ++i) {
    scales[i] = byte_at(packed, i) & 63;
    minima[i] = byte_at(packed, i + 4) & 63;
    scales[i + 4] = (byte_at(packed, i + 8) & 15) | (byte_at(packed, i) >> 6) << 4;
    minima[i + 4] = byte_at(packed, i + 8) >> 4 | (byte_at(packed, i + 4) >> 6) << 4;
  }
}

// Q4_K: d, dmin, scales[12], nibbles[128]. Q5_K: d, dmin, scales[12], fifth bits[32], nibbles[128].
void scales_q45_k(const std::byte* data, SubBlocks& out) {
  const float d = half_at(data), dmin = half_at(data + 2);
  int scales[8], minima[8];
  unpack_scales(data + 4, scales, minima);
  for (int block = 0; block < 8; ++block) {
    out.scale[2 * block] = out.scale[2 * block + 1] = d * static_cast<float>(scales[block]);
    out.minimum[block] = -dmin * static_cast<float>(minima[block]);
  }
}

void decode_q45_k(bool five, const std::byte* data, std::int8_t* q) {
  const std::byte* fifth = data + 16;
  const std::byte* nibbles = data + (five ? 48 : 16);
  for (int block = 0; block < 8; ++block, q += 32) {
    const std::byte* from = nibbles + block / 2 * 32;
    const int shift = block % 2 ? 4 : 0;
    for (int i = 0; i < 32; i += 8) {
      std::uint64_t word = word_at(from + i) >> shift & 15 * kOnes;
      if (five) word |= (word_at(fifth + i) >> block & kOnes) << 4;
      std::memcpy(q + i, &word, 8);
    }
  }
}

// Q6_K: low nibbles[128], high pairs[64], int8 scales[16], d. Each half of 128 values by itself.
void scales_q6_k(const std::byte* data, SubBlocks& out) {
  const float d = half_at(data + 208);
  for (int i = 0; i < 16; ++i) {
    out.scale[i] = d * static_cast<float>(static_cast<std::int8_t>(byte_at(data, 192 + i)));
  }
  for (float& minimum : out.minimum) minimum = 0;
}

void decode_q6_k(const std::byte* data, std::int8_t* q) {
  for (int block = 0; block < 8; ++block, q += 32) {
    const int half = block / 4, quarter = block % 4;
    const std::byte* low = data + half * 64 + quarter % 2 * 32;
    const std::byte* high = data + 128 + half * 32;
    const int low_shift = quarter < 2 ? 0 : 4, high_shift = 2 * quarter;
    for (int i = 0; i < 32; i += 8) {
      const std::uint64_t upper = word_at(high + i) >> high_shift & 3 * kOnes;
      const std::uint64_t word =
          less((word_at(low + i) >> low_shift & 15 * kOnes) | upper << 4, 32);
      std::memcpy(q + i, &word, 8);
    }
  }
}

// Q3_K: high bits[32], low pairs[64], scales[12] of 6 bits, d.
void scales_q3_k(const std::byte* data, SubBlocks& out) {
  const float d = half_at(data + 108);
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? byte_at(data, 96 + i) & 15 : byte_at(data, 96 + i - 8) >> 4;
    const int high = byte_at(data, 104 + i % 4) >> 2 * (i / 4) & 3;
    out.scale[i] = d * static_cast<float>((low | high << 4) - 32);
  }
  for (float& minimum : out.minimum) minimum = 0;
}

void decode_q3_k(const std::byte* data, std::int8_t* q) {
  for (int block = 0; block < 8; ++block, q += 32) {
    const std::byte* low = data + 32 + block / 4 * 32;
    const int shift = 2 * (block % 4);
    for (int i = 0; i < 32; i += 8) {
      const std::uint64_t high = word_at(data + i) >> block & kOnes;
      const std::uint64_t word = less((word_at(low + i) >> shift & 3 * kOnes) | high << 2, 4);
      std::memcpy(q + i, &word, 8);
    }
  }
}

}  // namespace

void decode_sub_scales(DType type, const std::byte* data, SubBlocks& out) {
  if (type == DType::kQ6_K) {
    scales_q6_k(data, out);
  } else if (type == DType::kQ3_K) {
    scales_q3_k(data, out);
  } else {
    CHECK(type == DType::kQ4_K || type == DType::kQ5_K, name_of(type));
    scales_q45_k(data, out);
  }
}

void decode_sub_blocks(DType type, const std::byte* data, SubBlocks& out) {
  decode_sub_scales(type, data, out);
  if (type == DType::kQ6_K) {
    decode_q6_k(data, out.q);
  } else if (type == DType::kQ3_K) {
    decode_q3_k(data, out.q);
  } else {
    decode_q45_k(type == DType::kQ5_K, data, out.q);
  }
}

void decode(DType type, const std::byte* data, std::int64_t count, float* out) {
  const auto bits_at = [data](std::int64_t i) {
    std::uint16_t bits;
    std::memcpy(&bits, data + 2 * i, 2);
    return bits;
  };
  switch (type) {
    case DType::kF32: std::memcpy(out, data, static_cast<size_t>(4 * count)); return;
    case DType::kF16:
      for (std::int64_t i = 0; i < count; ++i) out[i] = f32_from_f16(bits_at(i));
      return;
    case DType::kBF16:
      for (std::int64_t i = 0; i < count; ++i) out[i] = f32_from_bf16(bits_at(i));
      return;
    case DType::kF8E4M3:
      for (std::int64_t i = 0; i < count; ++i) {
        out[i] = f32_from_f8_e4m3(static_cast<std::uint8_t>(data[i]));
      }
      return;
    default: break;
  }
  const DTypeInfo& info = dtype_info(type);
  CHECK(count % info.block_size == 0, count, info.name);
  for (std::int64_t i = 0; i < count; i += info.block_size, data += info.block_bytes) {
    if (type == DType::kQ8_0) {
      decode_q8_0(data, out + i);
    } else if (info.block_size == 32) {
      decode_nibbles(type, data, out + i);
    } else {
      SubBlocks blocks;
      decode_sub_blocks(type, data, blocks);
      for (int k = 0; k < 256; ++k) {
        out[i + k] =
            blocks.scale[k / 16] * static_cast<float>(blocks.q[k]) + blocks.minimum[k / 32];
      }
    }
  }
}

void decode_values(const TensorView& matrix, std::int64_t row, std::int64_t begin,
                   std::int64_t count, float* out) {
  const std::int64_t columns = matrix.columns();
  const DType type = matrix.info->dtype;
  decode(type, matrix.data + row * row_bytes(type, columns) + row_bytes(type, begin), count, out);
  const BlockScales& scales = matrix.scales;
  if (scales.data == nullptr) return;
  const std::int64_t blocks = (columns + scales.block_columns - 1) / scales.block_columns;
  const std::int64_t bytes = row_bytes(scales.dtype, 1);
  const std::byte* of_row = scales.data + row / scales.block_rows * blocks * bytes;
  const std::int64_t end = begin + count;
  for (std::int64_t at = begin; at < end;) {
    const std::int64_t block = at / scales.block_columns;
    const std::int64_t block_end = std::min(end, (block + 1) * scales.block_columns);
    float scale;
    decode(scales.dtype, of_row + block * bytes, 1, &scale);
    for (; at < block_end; ++at) out[at - begin] *= scale;
  }
}

void decode_row(const TensorView& matrix, std::int64_t row, float* out) {
  decode_values(matrix, row, 0, matrix.columns(), out);
}

}  // namespace quern::kernels
