#include "kernels/packed_matrix.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/decode_blocks.h"
#include "kernels/pack_values.h"

namespace quern::kernels {
namespace {

std::uint16_t half_bits(const std::byte* data) {
  std::uint16_t bits;
  std::memcpy(&bits, data, 2);
  return bits;
}

// The largest scale and minimum, as they are or negated, among a matrix's blocks.
struct Largest {
  float scale = 0, minimum = 0;

  void add(float other_scale, float other_minimum) {
    scale = std::max(scale, std::fabs(other_scale));
    minimum = std::max(minimum, std::fabs(other_minimum));
  }
};

// Of rows [begin, end).
Largest largest_of(const TensorView& matrix, std::int64_t begin, std::int64_t end) {
  const DType type = matrix.info->dtype;
  const DTypeInfo& info = dtype_info(type);
  const std::int64_t row = row_bytes(type, matrix.columns());
  const std::byte* const last = matrix.data + end * row;
  Largest largest;
  SubBlocks blocks;
  for (const std::byte* block = matrix.data + begin * row; block < last;
       block += info.block_bytes) {
    if (info.block_size == kBlock) {
      largest.add(f32_from_f16(half_bits(block)), 0);
      continue;
    }
    decode_sub_scales(type, block, blocks);
    for (int i = 0; i < 16; ++i) largest.add(blocks.scale[i], blocks.minimum[i / 2]);
  }
  return largest;
}

Largest largest_of(const TensorView& matrix, ThreadPool& pool) {
  std::vector<Largest> of_threads(static_cast<size_t>(pool.size()));
  const std::int64_t rows = matrix.rows();
  pool.for_each(rows, pool.even_grain(rows), [&](std::int64_t begin, std::int64_t end, int thread) {
    const Largest part = largest_of(matrix, begin, end);
    of_threads[static_cast<size_t>(thread)].add(part.scale, part.minimum);
  });
  Largest largest;
  for (const Largest& part : of_threads) largest.add(part.scale, part.minimum);
  return largest;
}

// The formats with few bits hold only what halves can scale.
WeightFormat fitting_format(const TensorView& matrix, WeightFormat format, ThreadPool& pool) {
  constexpr float kMost = 65504.0f;
  const DType type = matrix.info->dtype;
  if (plane_bits(format) == 0 || type == DType::kQ4_1 || type == DType::kQ5_1) return format;
  const Largest largest = largest_of(matrix, pool);
  if (dtype_info(type).block_size == kBlock) {  // their minima are −8·d and −16·d
    const float minimum = largest.scale * (type == DType::kQ5_0 ? 16.0f : 8.0f);
    return minimum <= kMost ? format : WeightFormat::kQ8;
  }
  // The largest must be no subnormal, so that what small ones lose is less than what rounding takes
  // from large ones.
  const bool fits = largest.scale >= 0x1p-14f && largest.scale <= kMost && largest.minimum <= kMost;
  return fits ? format : WeightFormat::kQ8Sub;
}

// A row's piece is too short for the processor to see it coming.
void fetch(const std::byte* at, std::int64_t bytes) {
  for (std::int64_t i = 0; i < bytes; i += 64) {
    __builtin_prefetch(reinterpret_cast<const char*>(at) + i, 0, 3);
  }
}

PackedMatrix shape_of(const TensorView& matrix, PackMode mode, ThreadPool& pool) {
  PackedMatrix packed;
  packed.outputs = matrix.rows();
  packed.k = matrix.columns();
  packed.format = fitting_format(matrix, packed_format(matrix.info->dtype, mode), pool);
  packed.panel_bytes = panel_bytes(packed.format, packed.k);
  return packed;
}

// Values of one lane, from the panel bytes of the first of them.
void unpack(WeightFormat format, const std::byte* panel, int lane, std::int64_t count, float* out) {
  const auto half = [&](const std::byte* at, std::int64_t index) {
    return f32_from_f16(half_bits(at + 2 * index));
  };
  const auto number = [&](const std::byte* at, std::int64_t index) {
    float value;
    std::memcpy(&value, at + 4 * index, 4);
    return value;
  };
  for (std::int64_t k = 0; k < count; ++k) {
    const std::int64_t i = k % kBlock;
    switch (format) {
      case WeightFormat::kF32: out[k] = number(panel + k * 64, lane); break;
      case WeightFormat::kF16: out[k] = half(panel + k * 32, lane); break;
      case WeightFormat::kBF16:
        out[k] = f32_from_bf16(half_bits(panel + k / 2 * 64 + 4 * lane + k % 2 * 2));
        break;
      case WeightFormat::kQ4:
      case WeightFormat::kQ5:
      case WeightFormat::kQ6: {
        const int bits = plane_bits(format);
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
  PackedMatrix packed = shape_of(matrix, mode, pool);
  packed.data = arena.take(packed.panels() * packed.panel_bytes);
  const std::int64_t grain = pool.even_grain(packed.panels());
  pool.for_each(packed.panels(), grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (std::int64_t panel = begin; panel < end; ++panel) {
      pack_panel(matrix, packed.format, panel, packed.data.data() + panel * packed.panel_bytes);
    }
  });
  return packed;
}

PackedMatrix leave_stored(const TensorView& matrix, PackMode mode, ThreadPool& pool) {
  PackedMatrix packed = shape_of(matrix, mode, pool);
  packed.stored = StoredMatrix{*matrix.info, matrix.data, matrix.scales};
  return packed;
}

void pack_panel(const TensorView& matrix, WeightFormat format, std::int64_t panel, std::byte* out) {
  const std::int64_t k = matrix.columns(), first = panel * kPanel;
  const auto lanes = static_cast<int>(std::min<std::int64_t>(kPanel, matrix.rows() - first));
  if (lanes < kPanel) std::memset(out, 0, static_cast<size_t>(panel_bytes(format, k)));
  const DType type = matrix.info->dtype;
  const std::byte* const rows = matrix.data + first * row_bytes(type, k);
  for (std::int64_t begin = 0; begin < k; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, k - begin);
    std::byte* piece = out + panel_bytes(format, begin);
    const std::byte* const from = rows + row_bytes(type, begin);
    for (int lane = 0; lane < lanes; ++lane) {
      fetch(from + (lane + 1) * row_bytes(type, k), lane + 1 < lanes ? row_bytes(type, count) : 0);
      put_values(matrix, first + lane, begin, count, format, lane, piece);
    }
  }
}

void unpack_row(const PackedMatrix& matrix, std::int64_t output, float* out) {
  alignas(64) std::byte own[kMostPieceBytes];
  const auto lane = static_cast<int>(output % kPanel);
  for (std::int64_t begin = 0; begin < matrix.k; begin += kPiece) {
    const std::int64_t count = std::min(kPiece, matrix.k - begin);
    const std::byte* piece = own;
    if (matrix.stored) {
      put_values(matrix.stored->view(), output, begin, count, matrix.format, lane, own);
    } else {
      piece = matrix.data.data() + output / kPanel * matrix.panel_bytes +
              panel_bytes(matrix.format, begin);
    }
    unpack(matrix.format, piece, lane, count, out + begin);
  }
}

}  // namespace quern::kernels
