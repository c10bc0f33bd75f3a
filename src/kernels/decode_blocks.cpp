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
void decode_q45_k(DType type, const std::byte* data, SubBlocks& out) {
  const float d = half_at(data), dmin = half_at(data + 2);
  int scales[8], minima[8];
  unpack_scales(data + 4, scales, minima);
  const std::byte* fifth = type == DType::kQ5_K ? data + 16 : nullptr;
  const std::byte* nibbles = data + (fifth ? 48 : 16);
  for (int block = 0; block < 8; ++block) {
    out.scale[2 * block] = out.scale[2 * block + 1] = d * static_cast<float>(scales[block]);
    out.minimum[block] = -dmin * static_cast<float>(minima[block]);
    for (int i = 0; i < 32; ++i) {
      const int byte = byte_at(nibbles, block / 2 * 32 + i);
      int q = block % 2 ? byte >> 4 : byte & 15;
      if (fifth) q |= (byte_at(fifth, i) >> block & 1) << 4;
      out.q[32 * block + i] = static_cast<std::int8_t>(q);
    }
  }
}

// Q6_K: low nibbles[128], high pairs[64], int8 scales[16], d. Each half of 128 values by itself.
void decode_q6_k(const std::byte* data, SubBlocks& out) {
  const float d = half_at(data + 208);
  for (int i = 0; i < 16; ++i) {
    out.scale[i] = d * static_cast<float>(static_cast<std::int8_t>(byte_at(data, 192 + i)));
  }
  for (float& minimum : out.minimum) minimum = 0;
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i / 32 % 4, lane = i % 32;
    const int low = byte_at(data, half * 64 + quarter % 2 * 32 + lane);
    const int high = byte_at(data, 128 + half * 32 + lane) >> 2 * quarter & 3;
    out.q[i] = static_cast<std::int8_t>(((quarter < 2 ? low & 15 : low >> 4) | high << 4) - 32);
  }
}

// Q3_K: high bits[32], low pairs[64], scales[12] of 6 bits, d.
void decode_q3_k(const std::byte* data, SubBlocks& out) {
  const float d = half_at(data + 108);
  for (int i = 0; i < 16; ++i) {
    const int low = i < 8 ? byte_at(data, 96 + i) & 15 : byte_at(data, 96 + i - 8) >> 4;
    const int high = byte_at(data, 104 + i % 4) >> 2 * (i / 4) & 3;
    out.scale[i] = d * static_cast<float>((low | high << 4) - 32);
  }
  for (float& minimum : out.minimum) minimum = 0;
  for (int i = 0; i < 256; ++i) {
    const int half = i / 128, quarter = i / 32 % 4, lane = i % 32;
    const int low = byte_at(data, 32 + half * 32 + lane) >> 2 * quarter & 3;
    const int high = byte_at(data, lane) >> (4 * half + quarter) & 1;
    out.q[i] = static_cast<std::int8_t>(low - (high ? 0 : 4));
  }
}

}  // namespace

void decode_sub_blocks(DType type, const std::byte* data, SubBlocks& out) {
  if (type == DType::kQ6_K) {
    decode_q6_k(data, out);
  } else if (type == DType::kQ3_K) {
    decode_q3_k(data, out);
  } else {
    CHECK(type == DType::kQ4_K || type == DType::kQ5_K, name_of(type));
    decode_q45_k(type, data, out);
  }
}

void decode(DType type, const std::byte* data, std::int64_t count, float* out) {
  const DTypeInfo& info = dtype_info(type);
  CHECK(count % info.block_size == 0, count, info.name);
  for (std::int64_t i = 0; i < count; i += info.block_size, data += info.block_bytes) {
    switch (type) {
      case DType::kF32: std::memcpy(out + i, data, 4); break;
      case DType::kF16: out[i] = half_at(data); break;
      case DType::kBF16: {
        std::uint16_t bits;
        std::memcpy(&bits, data, 2);
        out[i] = f32_from_bf16(bits);
        break;
      }
      case DType::kF8E4M3: out[i] = f32_from_f8_e4m3(static_cast<std::uint8_t>(*data)); break;
      case DType::kQ4_0:
      case DType::kQ4_1:
      case DType::kQ5_0:
      case DType::kQ5_1: decode_nibbles(type, data, out + i); break;
      case DType::kQ8_0: decode_q8_0(data, out + i); break;
      case DType::kQ3_K:
      case DType::kQ4_K:
      case DType::kQ5_K:
      case DType::kQ6_K: {
        SubBlocks blocks;
        decode_sub_blocks(type, data, blocks);
        for (int k = 0; k < 256; ++k) {
          out[i + k] =
              blocks.scale[k / 16] * static_cast<float>(blocks.q[k]) + blocks.minimum[k / 32];
        }
        break;
      }
    }
  }
}

void decode_row(const TensorView& matrix, std::int64_t row, float* out) {
  const std::int64_t columns = matrix.columns();
  const DType type = matrix.info->dtype;
  decode(type, matrix.data + row * row_bytes(type, columns), columns, out);
  const BlockScales& scales = matrix.scales;
  if (scales.data == nullptr) return;
  const std::int64_t blocks = (columns + scales.block_columns - 1) / scales.block_columns;
  const std::int64_t bytes = row_bytes(scales.dtype, 1);
  const std::byte* of_row = scales.data + row / scales.block_rows * blocks * bytes;
  for (std::int64_t begin = 0; begin < columns; begin += scales.block_columns, of_row += bytes) {
    float scale;
    decode(scales.dtype, of_row, 1, &scale);
    const std::int64_t end = std::min(columns, begin + scales.block_columns);
    for (std::int64_t i = begin; i < end; ++i) out[i] *= scale;
  }
}

}  // namespace quern::kernels
