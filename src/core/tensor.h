// A named tensor of a checkpoint, and a view of its bytes. Row-major, outermost dimension first
// (GGUF lists dimensions the other way round; its reader turns them).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "core/dtype.h"

namespace quern {

struct TensorInfo {
  std::string name;
  DType dtype = DType::kF32;
  std::vector<std::int64_t> shape;
  std::int64_t bytes = 0;  // as stored
};

// Scales of a matrix that are stored apart from it, one for a block of rows and columns; the last
// blocks may be cut by the matrix's edges.
struct BlockScales {
  const std::byte* data = nullptr;  // [⌈rows/block_rows⌉, ⌈columns/block_columns⌉]; null: none
  DType dtype = DType::kF32;        // kF32 or kBF16
  std::int64_t block_rows = 0, block_columns = 0;
};

// Does not own `data`; valid as long as the checkpoint that gave it.
struct TensorView {
  const TensorInfo* info = nullptr;
  const std::byte* data = nullptr;
  BlockScales scales = {};  // of kF8E4M3

  std::int64_t rows() const { return info->shape.size() > 1 ? info->shape[0] : 1; }
  std::int64_t columns() const { return info->shape.back(); }
};

}  // namespace quern
