// Puts stored values into panels: a piece of one row at a time becomes a lane. packed_matrix.h says
// how panels look and calls this; nothing here allocates.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/tensor.h"
#include "kernels/ops.h"

namespace quern::kernels {

// Values along k that are packed at a time, so that what they become stays in the cache while all
// lanes are filled. A multiple of every block size.
inline constexpr std::int64_t kPiece = 256;
inline constexpr std::int64_t kMostPieceBytes = kPiece * 64;  // of a panel, in any format

constexpr std::int64_t kQ8Bytes = 32 + 512;
constexpr std::int64_t kQ8SubBytes = 192 + 512;

// Of a weight in the formats that packed_matrix.h's planes hold; 0: another format.
constexpr int plane_bits(WeightFormat format) {
  switch (format) {
    case WeightFormat::kQ4: return 4;
    case WeightFormat::kQ5: return 5;
    case WeightFormat::kQ6: return 6;
    default: return 0;
  }
}

// Values [begin, begin + count) of a row into a lane of the panel whose bytes for `begin` are at
// `out`. Requires: begin a multiple of kPiece, count ≤ kPiece and whole blocks, or the row's rest.
void put_values(const TensorView& matrix, std::int64_t row, std::int64_t begin, std::int64_t count,
                WeightFormat format, int lane, std::byte* out);

}  // namespace quern::kernels
