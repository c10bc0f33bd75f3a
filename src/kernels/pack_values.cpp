#include "kernels/pack_values.h"

#include <array>
#include <cstring>

#include "kernels/decode_blocks.h"
#include "kernels/packed_matrix.h"

namespace quern::kernels {
namespace {

constexpr std::uint32_t kLow = 0x0F0F0F0F;  // the lower four bits of each byte of a word

template <typename T>
T load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof(T));
  return value;
}

template <typename T>
void put(std::byte* out, std::int64_t index, T value) {
  std::memcpy(out + index * static_cast<std::int64_t>(sizeof(T)), &value, sizeof(T));
}

// The 32 weights of a block, four in a word.
using Quads = std::uint32_t[8];

// What kQ4, kQ5 and kQ6 have in common, of the block of one output: two halves and lower bits.
[[gnu::always_inline]] inline void put_nibbles(const Quads& q, std::uint16_t first,
                                               std::uint16_t second, int lane, std::byte* out) {
  put(out, lane, first);
  put(out + 32, lane, second);
  for (int j = 0; j < 4; ++j) {
    put(out + 64 + 64 * j, lane, (q[2 * j] & kLow) | (q[2 * j + 1] & kLow) << 4);
  }
}

// Four weights less `offset`, in a word: with the top bit set no byte borrows from the next.
std::uint32_t less(std::uint32_t quad, std::uint32_t offset) {
  return ((quad | 0x80808080) - offset * 0x01010101) ^ 0x80808080;
}

// Fifth bits as Q5_0 and Q5_1 store them, bit k of a word, to where kQ5 wants them: bit n of byte i
// for k = 4n+i. By bytes of the word, which are two bits n.
constexpr auto kFifthBits = [] {
  std::array<std::uint32_t, 256> made{};
  for (std::uint32_t byte = 0; byte < 256; ++byte) {
    for (std::uint32_t k = 0; k < 8; ++k) made[byte] |= (byte >> k & 1) << (8 * (k % 4) + k / 4);
  }
  return made;
}();

std::uint32_t fifth_bits(std::uint32_t stored) {
  return kFifthBits[stored & 255] | kFifthBits[stored >> 8 & 255] << 2 |
         kFifthBits[stored >> 16 & 255] << 4 | kFifthBits[stored >> 24] << 6;
}

// Q4_0, Q4_1, Q5_0, Q5_1 to kQ4 or kQ5; to kQ8 where a half does not hold the minimum. The stored
// byte i holds the low bits of k = i and of k = i + 16.
template <DType type>
void put_legacy(const std::byte* stored, WeightFormat format, int lane, std::byte* out) {
  constexpr bool five = type == DType::kQ5_0 || type == DType::kQ5_1;
  constexpr bool has_minimum = type == DType::kQ4_1 || type == DType::kQ5_1;
  constexpr int offset = five ? 16 : 8;
  const std::byte* const data = stored + (has_minimum ? 4 : 2);
  Quads q;
  for (int n = 0; n < 4; ++n) {
    const auto word = load<std::uint32_t>(data + (five ? 4 : 0) + 4 * n);
    q[n] = word & kLow;
    q[n + 4] = word >> 4 & kLow;
  }
  const std::uint32_t fifth = five ? fifth_bits(load<std::uint32_t>(data)) : 0;
  const auto scale = load<std::uint16_t>(stored);
  if (format == WeightFormat::kQ8) {
    put(out, lane, scale);
    for (int n = 0; n < 8; ++n) {
      put(out + 32 + 64 * n, lane, less(q[n] | (fifth >> n & 0x01010101) << 4, offset));
    }
    return;
  }
  const auto minimum = has_minimum
                           ? load<std::uint16_t>(stored + 2)
                           : f16_from_f32(f32_from_f16(scale) * static_cast<float>(-offset));
  put_nibbles(q, scale, minimum, lane, out);
  if (five) put(out + 320, lane, fifth);
}

void put_q8_0(const std::byte* stored, WeightFormat, int lane, std::byte* out) {
  put(out, lane, load<std::uint16_t>(stored));
  for (int n = 0; n < 8; ++n) {
    put(out + 32 + 64 * n, lane, load<std::uint32_t>(stored + 2 + 4 * n));
  }
}

template <int bits>
void put_k_planes(const SubBlocks& blocks, int lane, std::byte* out) {
  for (int b = 0; b < 8; ++b, out += plane_bytes(bits)) {
    Quads q;
    std::memcpy(q, blocks.q + 32 * b, sizeof(q));
    const float second = bits == 6 ? blocks.scale[2 * b + 1] : blocks.minimum[b];
    put_nibbles(q, f16_from_f32(blocks.scale[2 * b]), f16_from_f32(second), lane, out);
    std::uint32_t upper[2] = {};
    for (int n = 0; n < 8; ++n) {
      if (bits == 5) upper[0] |= (q[n] >> 4 & 0x01010101) << n;
      // Weights from −32 on: the sixth bit is the other way round.
      if (bits == 6) upper[n / 4] |= ((q[n] >> 4 & 0x03030303) ^ 0x02020202) << 2 * (n % 4);
    }
    if (bits >= 5) put(out + 320, lane, upper[0]);
    if (bits == 6) put(out + 384, lane, upper[1]);
  }
}

void put_k_sub(const SubBlocks& blocks, int lane, std::byte* out) {
  for (int b = 0; b < 8; ++b, out += kQ8SubBytes) {
    put(out, lane, blocks.scale[2 * b]);
    put(out + 64, lane, blocks.scale[2 * b + 1]);
    put(out + 128, lane, blocks.minimum[b]);
    for (int n = 0; n < 8; ++n) {
      put(out + 192 + 64 * n, lane, load<std::uint32_t>(blocks.q + 32 * b + 4 * n));
    }
  }
}

template <DType type>
void put_k_quant(const std::byte* stored, WeightFormat format, int lane, std::byte* out) {
  SubBlocks blocks;
  decode_sub_blocks(type, stored, blocks);
  switch (format) {
    case WeightFormat::kQ4: return put_k_planes<4>(blocks, lane, out);
    case WeightFormat::kQ5: return put_k_planes<5>(blocks, lane, out);
    case WeightFormat::kQ6: return put_k_planes<6>(blocks, lane, out);
    default: return put_k_sub(blocks, lane, out);
  }
}

void put_f32(const TensorView& matrix, std::int64_t row, std::int64_t begin, std::int64_t count,
             int lane, std::byte* out) {
  float values[kPiece];
  decode_values(matrix, row, begin, count, values);
  for (std::int64_t i = 0; i < count; ++i) put(out + 64 * i, lane, values[i]);
}

// kF16, kBF16.
void put_16_bits(const TensorView& matrix, std::int64_t row, std::int64_t begin, std::int64_t count,
                 WeightFormat format, int lane, std::byte* out) {
  const bool half = format == WeightFormat::kF16;
  const DType type = matrix.info->dtype;
  std::uint16_t bits[kPiece + 1];
  if (type == (half ? DType::kF16 : DType::kBF16)) {
    const std::int64_t first = row * matrix.columns() + begin;
    std::memcpy(bits, matrix.data + 2 * first, static_cast<size_t>(2 * count));
  } else {
    float values[kPiece];
    decode_values(matrix, row, begin, count, values);
    for (std::int64_t i = 0; i < count; ++i) {
      bits[i] = half ? f16_from_f32(values[i]) : bf16_from_f32(values[i]);
    }
  }
  if (half) {
    for (std::int64_t i = 0; i < count; ++i) put(out + 32 * i, lane, bits[i]);
    return;
  }
  bits[count] = 0;  // the partner of an odd last value
  for (std::int64_t i = 0; i < count; i += 2) {
    put(out + 32 * i, lane, load<std::uint32_t>(bits + i));
  }
}

using PutBlock = void (*)(const std::byte* stored, WeightFormat format, int lane, std::byte* out);

// What puts one block of a quantised type.
PutBlock put_of(DType type) {
  switch (type) {
    case DType::kQ4_0: return put_legacy<DType::kQ4_0>;
    case DType::kQ4_1: return put_legacy<DType::kQ4_1>;
    case DType::kQ5_0: return put_legacy<DType::kQ5_0>;
    case DType::kQ5_1: return put_legacy<DType::kQ5_1>;
    case DType::kQ3_K: return put_k_quant<DType::kQ3_K>;
    case DType::kQ4_K: return put_k_quant<DType::kQ4_K>;
    case DType::kQ5_K: return put_k_quant<DType::kQ5_K>;
    case DType::kQ6_K: return put_k_quant<DType::kQ6_K>;
    default: return put_q8_0;
  }
}

}  // namespace

void put_values(const TensorView& matrix, std::int64_t row, std::int64_t begin, std::int64_t count,
                WeightFormat format, int lane, std::byte* out) {
  if (format == WeightFormat::kF32) {
    put_f32(matrix, row, begin, count, lane, out);
    return;
  }
  if (activation_of(format) != ActivationKind::kInt8) {
    put_16_bits(matrix, row, begin, count, format, lane, out);
    return;
  }
  const DType type = matrix.info->dtype;
  const DTypeInfo& info = dtype_info(type);
  const std::byte* stored =
      matrix.data + row * row_bytes(type, matrix.columns()) + row_bytes(type, begin);
  const PutBlock put_block = put_of(type);
  const std::int64_t bytes = panel_bytes(format, info.block_size);
  for (std::int64_t i = 0; i < count; i += info.block_size) {
    put_block(stored, format, lane, out);
    stored += info.block_bytes;
    out += bytes;
  }
}

}  // namespace quern::kernels
