#include "kernels/matmul.h"

#include <algorithm>

#include "base/error.h"

namespace quern::kernels {
namespace {

constexpr ActivationKind kKinds[] = {ActivationKind::kF32, ActivationKind::kBF16,
                                     ActivationKind::kInt8};

}  // namespace

Matmul::Matmul(ThreadPool& pool, std::int64_t max_rows, std::int64_t max_k)
    : pool_(pool), max_rows_(max_rows), max_k_(max_k) {
  for (ActivationKind kind : kKinds) {
    const auto i = static_cast<size_t>(kind);
    prepared_[i] = AlignedBuffer(max_rows * activation_row_bytes(kind, max_k));
  }
}

void Matmul::operator()(const float* x, std::int64_t rows, std::span<const MatmulTarget> targets) {
  if (rows == 0) return;
  const std::int64_t k = targets.front().weights->k;
  CHECK(rows <= max_rows_ && k <= max_k_, rows, k);
  bool needed[3] = {};
  std::int64_t panels = 0;
  for (const MatmulTarget& target : targets) {
    CHECK(target.weights->k == k, target.weights->k, k);
    needed[static_cast<size_t>(activation_of(target.weights->format))] = true;
    panels += target.weights->panels();
  }
  for (ActivationKind kind : kKinds) {
    if (needed[static_cast<size_t>(kind)]) prepare(kind, x, rows, k);
  }
  pool_.for_each(panels, pool_.even_grain(panels), [&](std::int64_t begin, std::int64_t end, int) {
    std::int64_t first = 0;  // of the target's panels, among all targets'
    for (const MatmulTarget& target : targets) {
      const std::int64_t count = target.weights->panels();
      multiply(target, rows, k, std::max(std::int64_t{0}, begin - first),
               std::min(count, end - first));
      first += count;
    }
  });
}

void Matmul::prepare(ActivationKind kind, const float* x, std::int64_t rows, std::int64_t k) {
  const auto i = static_cast<size_t>(kind);
  const std::int64_t stride = activation_row_bytes(kind, k);
  // Few rows are prepared sooner than another thread hears of them.
  const std::int64_t grain = rows < 4 ? rows : pool_.even_grain(rows);
  pool_.for_each(rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
    ops().prepare[i](x + begin * k, end - begin, k, prepared_[i].data() + begin * stride, stride);
  });
}

void Matmul::multiply(const MatmulTarget& target, std::int64_t rows, std::int64_t k,
                      std::int64_t panel_begin, std::int64_t panel_end) {
  if (panel_begin >= panel_end) return;
  const PackedMatrix& weights = *target.weights;
  const ActivationKind kind = activation_of(weights.format);
  ops().multiply[static_cast<size_t>(weights.format)](
      {.weights = weights.data.data(),
       .panel_bytes = weights.panel_bytes,
       .activations = prepared_[static_cast<size_t>(kind)].data(),
       .activation_stride = activation_row_bytes(kind, k),
       .rows = rows,
       .k = k,
       .panel_begin = panel_begin,
       .panel_end = panel_end,
       .outputs = weights.outputs,
       .out = target.out,
       .out_stride = weights.outputs});
}

}  // namespace quern::kernels
