#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "kernels/decode_blocks.h"

namespace quern::kernels {
namespace {

constexpr std::int64_t kQ8Bytes = 32 + 512;
constexpr std::int64_t kQ8SubBytes = 192 + 512;

// Of a weight in the formats that packed_matrix.h's planes hold; 0: another format.
int plane_bits(WeightFormat format) {
  return format == WeightFormat::kQ4   ? 4
         : format == WeightFormat::kQ5 ? 5
         : format == WeightFormat::kQ6 ? 6
                                       : 0;
}

void put_half(std::byte* at, int index, std::uint16_t bits) {
  std::memcpy(at + 2 * index, &bits, 2);
}

void put_float(std::byte* at, int index, float value) { std::memcpy(at + 4 * index, &value, 4); }

std::uint16_t half_bits(const std::byte* data) {
  std::uint16_t bits;
  std::memcpy(&bits, data, 2);
  return bits;
}

// Float formats: element (k, lane) of a panel from one decoded row.
void put_row(WeightFormat format, const float* row, std::int64_t k, int lane, std::byte* panel) {
  for (std::int64_t i = 0; i < k; ++i) {
    switch (format) {
      case WeightFormat::kF32: put_float(panel + i * 64, lane, row[i]); break;
      case WeightFormat::kF16: put_half(panel + i * 32, lane, f16_from_f32(row[i])); break;
      default:
        put_half(panel + i / 2 * 64, 2 * lane + static_cast<int>(i % 2), bf16_from_f32(row[i]));
    }
  }
}

// kQ4, kQ5, kQ6: the block of one output, from unsigned weights q and the two halves before them.
void put_planes(int bits, const std::uint8_t* q, float first, float second, int lane,
                std::byte* out) {
  put_half(out, lane, f16_from_f32(first));
  put_half(out + 32, lane, f16_from_f32(second));
  std::byte* planes = out + 64 + 4 * lane;
  for (int j = 0; j < 4; ++j) {
    for (int i = 0; i < 4; ++i) {
      const int low = q[8 * j + i] & 15, high = q[8 * j + 4 + i] & 15;
      planes[64 * j + i] = static_cast<std::byte>(low | high << 4);
    }
  }
  for (int part = 0; part < bits - 4; ++part) {
    const int quads = bits == 5 ? 8 : 4, width = bits - 4;
    for (int i = 0; i < 4; ++i) {
      int upper = 0;
      for (int n = 0; n < quads; ++n) upper |= q[16 * part + 4 * n + i] >> 4 << width * n;
      planes[256 + 64 * part + i] = static_cast<std::byte>(upper);
    }
  }
}

// Q4_0, Q4_1, Q5_0, Q5_1 → kQ4, kQ5. The stored byte i holds the low bits of k = i and k = i + 16.
void put_legacy(DType type, const std::byte* block, int lane, std::byte* out) {
  const bool five = type == DType::kQ5_0 || type == DType::kQ5_1;
  const bool has_minimum = type == DType::kQ4_1 || type == DType::kQ5_1;
  const float scale = f32_from_f16(half_bits(block));
  const float minimum =
      has_minimum ? f32_from_f16(half_bits(block + 2)) : scale * (five ? -16.0f : -8.0f);
  const std::byte* data = block + (has_minimum ? 4 : 2);
  std::uint32_t fifth = 0;
  if (five) std::memcpy(&fifth, data, 4);
  const std::byte* nibbles = data + (five ? 4 : 0);
  std::uint8_t q[kBlock];
  for (int i = 0; i < kBlock; ++i) {
    const auto byte = std::to_integer<int>(nibbles[i % 16]);
    q[i] = static_cast<std::uint8_t>((i < 16 ? byte & 15 : byte >> 4) | (fifth >> i & 1) << 4);
  }
  put_planes(five ? 5 : 4, q, scale, minimum, lane, out);
}

void put_quads(const std::int8_t* q, int lane, std::byte* out) {
  for (int quad = 0; quad < 8; ++quad) std::memcpy(out + 64 * quad + 4 * lane, q + 4 * quad, 4);
}

void put_q8(DType type, const std::byte* block, int lane, std::byte* out) {
  put_half(out, lane, half_bits(block));
  std::int8_t q[kBlock];
  if (type == DType::kQ8_0) {
    std::memcpy(q, block + 2, kBlock);
  } else {  // Q4_0 whose scale is too large for kQ4's half minimum
    for (int i = 0; i < kBlock; ++i) {
      const auto byte = std::to_integer<int>(block[2 + i % 16]);
      q[i] = static_cast<std::int8_t>((i < 16 ? byte & 15 : byte >> 4) - 8);
    }
  }
  put_quads(q, lane, out + 32);
}

void put_sub(const std::int8_t* q, float scale0, float scale1, float minimum, int lane,
             std::byte* out) {
  put_float(out, lane, scale0);
  put_float(out + 64, lane, scale1);
  put_float(out + 128, lane, minimum);
  put_quads(q, lane, out + 192);
}

// Q5_0, Q5_1: q from the decoded integers, w = d·q + min.
void put_q5(DType type, const std::byte* block, int lane, std::byte* out) {
  const bool has_minimum = type == DType::kQ5_1;
  const float scale = f32_from_f16(half_bits(block));
  const float minimum = has_minimum ? f32_from_f16(half_bits(block + 2)) : 0.0f;
  const std::byte* fifth_bytes = block + (has_minimum ? 4 : 2);
  std::uint32_t fifth;
  std::memcpy(&fifth, fifth_bytes, 4);
  std::int8_t q[kBlock];
  for (int i = 0; i < kBlock; ++i) {
    const auto byte = std::to_integer<int>(fifth_bytes[4 + i % 16]);
    const int value = (i < 16 ? byte & 15 : byte >> 4) | static_cast<int>(fifth >> i & 1u) << 4;
    q[i] = static_cast<std::int8_t>(value - (has_minimum ? 0 : 16));
  }
  put_sub(q, scale, scale, minimum, lane, out);
}

// K-quants → kQ4, kQ5, kQ6: eight blocks of 32.
void put_k_planes(DType type, const std::byte* super, int bits, int lane, std::byte* out) {
  SubBlocks blocks;
  decode_sub_blocks(type, super, blocks);
  for (int b = 0; b < 8; ++b, out += plane_bytes(bits)) {
    std::uint8_t q[kBlock];
    for (int i = 0; i < kBlock; ++i) {
      q[i] = static_cast<std::uint8_t>(blocks.q[32 * b + i] + (bits == 6 ? 32 : 0));
    }
    put_planes(bits, q, blocks.scale[2 * b],
               bits == 6 ? blocks.scale[2 * b + 1] : blocks.minimum[b], lane, out);
  }
}

void put_k_quant(DType type, const std::byte* super, int lane, std::byte* out) {
  SubBlocks blocks;
  decode_sub_blocks(type, super, blocks);
  for (int b = 0; b < 8; ++b) {
    put_sub(blocks.q + 32 * b, blocks.scale[2 * b], blocks.scale[2 * b + 1], blocks.minimum[b],
            lane, out + kQ8SubBytes * b);
  }
}

void put_quantised_row(DType type, WeightFormat format, const std::byte* row, std::int64_t k,
                       int lane, std::byte* panel) {
  const DTypeInfo& info = dtype_info(type);
  for (std::int64_t i = 0; i < k; i += info.block_size, row += info.block_bytes) {
    const std::int64_t block = i / kBlock;
    if (const int bits = plane_bits(format); bits > 0) {
      std::byte* to = panel + block * plane_bytes(bits);
      if (info.block_size == kBlock) {
        put_legacy(type, row, lane, to);
      } else {
        put_k_planes(type, row, bits, lane, to);
      }
    } else if (format == WeightFormat::kQ8) {
      put_q8(type, row, lane, panel + block * kQ8Bytes);
    } else if (info.block_size == kBlock) {
      put_q5(type, row, lane, panel + block * kQ8SubBytes);
    } else {
      put_k_quant(type, row, lane, panel + block * kQ8SubBytes);
    }
  }
}

// Whether halves hold the minima that Q4_0 and Q5_0 get: −8·d, −16·d.
bool minimum_fits(const TensorView& matrix) {
  const DTypeInfo& info = dtype_info(matrix.info->dtype);
  const float most = 65504.0f / (matrix.info->dtype == DType::kQ5_0 ? 16.0f : 8.0f);
  const std::int64_t blocks = matrix.rows() * matrix.columns() / kBlock;
  for (std::int64_t b = 0; b < blocks; ++b) {
    if (std::fabs(f32_from_f16(half_bits(matrix.data + b * info.block_bytes))) > most) return false;
  }
  return true;
}

// Whether halves hold the scales of a K-quant matrix: none is too large, and the largest is no
// subnormal, so that what small ones lose is less than what rounding takes from large ones.
bool scales_fit_half(const TensorView& matrix) {
  const DTypeInfo& info = dtype_info(matrix.info->dtype);
  const std::int64_t supers = matrix.rows() * matrix.columns() / info.block_size;
  float largest = 0.0f, minimum = 0.0f;
  SubBlocks blocks;
  for (std::int64_t s = 0; s < supers; ++s) {
    decode_sub_blocks(matrix.info->dtype, matrix.data + s * info.block_bytes, blocks);
    for (const float scale : blocks.scale) largest = std::max(largest, std::fabs(scale));
    for (const float value : blocks.minimum) minimum = std::max(minimum, std::fabs(value));
  }
  return largest >= 0x1p-14f && largest <= 65504.0f && minimum <= 65504.0f;
}

// The formats with few bits hold only what halves can scale.
WeightFormat fitting_format(const TensorView& matrix, WeightFormat format) {
  if (plane_bits(format) == 0) return format;
  const DType type = matrix.info->dtype;
  if (dtype_info(type).block_size > kBlock) {
    return scales_fit_half(matrix) ? format : WeightFormat::kQ8Sub;
  }
  if (type == DType::kQ4_1 || type == DType::kQ5_1 || minimum_fits(matrix)) return format;
  return type == DType::kQ4_0 ? WeightFormat::kQ8 : WeightFormat::kQ8Sub;
}

}  // namespace

std::int64_t panel_bytes(WeightFormat format, std::int64_t k) {
  switch (format) {
    case WeightFormat::kF32: return k * 64;
    case WeightFormat::kF16: return k * 32;
    case WeightFormat::kBF16: return (k + 1) / 2 * 64;
    case WeightFormat::kQ8: return k / kBlock * kQ8Bytes;
    case WeightFormat::kQ8Sub: return k / kBlock * kQ8SubBytes;
    case WeightFormat::kQ4:
    case WeightFormat::kQ5:
    case WeightFormat::kQ6: return k / kBlock * plane_bytes(plane_bits(format));
  }
  return 0;
}

WeightFormat packed_format(DType stored, PackMode mode) {
  if (mode == PackMode::kF32) return WeightFormat::kF32;
  switch (stored) {
    case DType::kF32: return mode == PackMode::kBF16 ? WeightFormat::kBF16 : WeightFormat::kF32;
    case DType::kF16: return mode == PackMode::kBF16 ? WeightFormat::kBF16 : WeightFormat::kF16;
    case DType::kBF16:
    case DType::kF8E4M3: return WeightFormat::kBF16;  // a product with an f32 scale
    case DType::kQ4_0:
    case DType::kQ4_1:
    case DType::kQ4_K: return WeightFormat::kQ4;
    case DType::kQ5_0:
    case DType::kQ5_1:
    case DType::kQ5_K: return WeightFormat::kQ5;
    case DType::kQ8_0: return WeightFormat::kQ8;
    default: return WeightFormat::kQ6;
  }
}

PackedMatrix pack(const TensorView& matrix, PackMode mode, ThreadPool& pool, Arena& arena) {
  const DType type = matrix.info->dtype;
  PackedMatrix packed;
  packed.outputs = matrix.rows();
  packed.k = matrix.columns();
  packed.format = fitting_format(matrix, packed_format(type, mode));
  packed.panel_bytes = panel_bytes(packed.format, packed.k);
  packed.data = arena.take(packed.panels() * packed.panel_bytes);
  const bool decoded = activation_of(packed.format) != ActivationKind::kInt8;
  std::vector<std::vector<float>> rows(static_cast<size_t>(pool.size()));
  for (auto& row : rows) row.resize(decoded ? static_cast<size_t>(packed.k) : 0);
  const std::int64_t grain = pool.even_grain(packed.panels());
  pool.for_each(packed.panels(), grain, [&](std::int64_t begin, std::int64_t end, int thread) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      std::byte* out = packed.data.data() + panel * packed.panel_bytes;
      for (int lane = 0; lane < kPanel; ++lane) {
        const std::int64_t output = panel * kPanel + lane;
        if (output >= packed.outputs) break;
        if (decoded) {
          float* row = rows[static_cast<size_t>(thread)].data();
          decode_row(matrix, output, row);
          put_row(packed.format, row, packed.k, lane, out);
        } else {
          put_quantised_row(type, packed.format, matrix.data + output * row_bytes(type, packed.k),
                            packed.k, lane, out);
        }
      }
    }
  });
  return packed;
}

void unpack_row(const PackedMatrix& matrix, std::int64_t output, float* out) {
  const std::byte* panel = matrix.data.data() + output / kPanel * matrix.panel_bytes;
  const auto lane = static_cast<int>(output % kPanel);
  const auto half = [&](const std::byte* at, std::int64_t index) {
    return f32_from_f16(half_bits(at + 2 * index));
  };
  const auto number = [&](const std::byte* at, std::int64_t index) {
    float value;
    std::memcpy(&value, at + 4 * index, 4);
    return value;
  };
  for (std::int64_t k = 0; k < matrix.k; ++k) {
    const std::int64_t i = k % kBlock;
    switch (matrix.format) {
      case WeightFormat::kF32: out[k] = number(panel + k * 64, lane); break;
      case WeightFormat::kF16: out[k] = half(panel + k * 32, lane); break;
      case WeightFormat::kBF16:
        out[k] = f32_from_bf16(half_bits(panel + k / 2 * 64 + 4 * lane + k % 2 * 2));
        break;
      case WeightFormat::kQ4:
      case WeightFormat::kQ5:
      case WeightFormat::kQ6: {
        const int bits = plane_bits(matrix.format);
        const std::byte* block = panel + k / kBlock * plane_bytes(bits);
        const auto q = static_cast<float>(plane_value(block + 64, bits, lane, static_cast<int>(i)) -
                                          (bits == 6 ? 32 : 0));
        out[k] = bits == 6 ? half(block + i / 16 * 32, lane) * q
                           : half(block, lane) * q + half(block + 32, lane);
        break;
      }
      case WeightFormat::kQ8: {
        const std::byte* block = panel + k / kBlock * kQ8Bytes;
        const auto q = static_cast<std::int8_t>(block[32 + 64 * (i / 4) + 4 * lane + i % 4]);
        out[k] = half(block, lane) * static_cast<float>(q);
        break;
      }
      case WeightFormat::kQ8Sub: {
        const std::byte* block = panel + k / kBlock * kQ8SubBytes;
        const auto q = static_cast<std::int8_t>(block[192 + 64 * (i / 4) + 4 * lane + i % 4]);
        out[k] =
            number(block, i / 16 * 16 + lane) * static_cast<float>(q) + number(block + 128, lane);
        break;
      }
    }
  }
}

}  // namespace quern::kernels
