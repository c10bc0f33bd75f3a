#include "kernels/head_matmul.h"

#include <algorithm>

#include "base/error.h"

namespace quern::kernels {
namespace {

// Rows that are prepared at once: little enough to stay in a core's own cache.
constexpr std::int64_t kRows = 64;

std::int64_t thread_scratch_bytes(std::int64_t k) {
  std::int64_t bytes = 0;
  for (const ActivationKind kind :
       {ActivationKind::kF32, ActivationKind::kBF16, ActivationKind::kInt8}) {
    bytes = std::max(bytes, kRows * activation_row_bytes(kind, k));
  }
  return (bytes + 63) / 64 * 64;
}

}  // namespace

std::int64_t head_scratch_bytes(const ThreadPool& pool, std::int64_t k) {
  return pool.size() * thread_scratch_bytes(k);
}

void multiply_heads(ThreadPool& pool, const HeadProduct& product, std::int64_t rows,
                    std::byte* scratch) {
  if (rows == 0) return;
  const PackedMatrix& weights = *product.weights;
  const std::int64_t outputs = weights.outputs / product.heads, k = weights.k;
  CHECK(outputs % kPanel == 0 && !weights.stored, outputs);
  const ActivationKind kind = activation_of(weights.format);
  const auto prepare = ops().prepare[static_cast<size_t>(kind)];
  const auto multiply = ops().multiply[static_cast<size_t>(weights.format)];
  const std::int64_t stride = activation_row_bytes(kind, k);
  const std::int64_t panels = outputs / kPanel;
  // A head's panels are parted only where there are few heads for the threads.
  const std::int64_t parts =
      std::clamp<std::int64_t>((2 * pool.size() + product.heads - 1) / product.heads, 1, panels);
  const std::int64_t pieces = product.heads * parts;
  pool.for_each(
      pieces, pool.even_grain(pieces), [&](std::int64_t begin, std::int64_t end, int thread) {
        std::byte* prepared = scratch + thread * thread_scratch_bytes(k);
        for (std::int64_t piece = begin; piece < end; ++piece) {
          const std::int64_t head = piece / parts, part = piece % parts;
          for (std::int64_t first = 0; first < rows; first += kRows) {
            const std::int64_t count = std::min(kRows, rows - first);
            for (std::int64_t row = 0; row < count; ++row) {
              prepare(
                  product.x + (first + row) * product.x_row_stride + head * product.x_head_stride,
                  1, k, prepared + row * stride, stride);
            }
            multiply({.weights = weights.data.data() + head * panels * weights.panel_bytes,
                      .panel_bytes = weights.panel_bytes,
                      .activations = prepared,
                      .activation_stride = stride,
                      .rows = count,
                      .k = k,
                      .panel_begin = panels * part / parts,
                      .panel_end = panels * (part + 1) / parts,
                      .outputs = outputs,
                      .out = product.out + first * product.out_row_stride +
                             head * product.out_head_stride,
                      .out_stride = product.out_row_stride});
          }
        }
      });
}

}  // namespace quern::kernels
