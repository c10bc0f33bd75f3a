#include "kernels/matmul.h"

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
    shared_[i] = AlignedBuffer(max_rows * activation_row_bytes(kind, max_k));
    for (int thread = 0; thread < pool.size(); ++thread) {
      own_[i].emplace_back(activation_row_bytes(kind, max_k));
    }
  }
}

void Matmul::operator()(const float* x, std::int64_t rows, std::span<const MatmulTarget> targets) {
  if (rows == 0) return;
  const std::int64_t k = targets.front().weights->k;
  CHECK(rows <= max_rows_ && k <= max_k_, rows, k);
  bool needed[3] = {};
  for (const MatmulTarget& target : targets) {
    CHECK(target.weights->k == k, target.weights->k, k);
    needed[static_cast<size_t>(activation_of(target.weights->format))] = true;
  }
  const Ops& table = ops();
  pool_.run([&](int thread) {
    const std::byte* activations[3] = {};
    for (ActivationKind kind : kKinds) {
      const auto i = static_cast<size_t>(kind);
      if (!needed[i]) continue;
      const std::int64_t stride = activation_row_bytes(kind, k);
      // A single row is prepared by every thread for itself: cheaper than meeting at a barrier.
      std::byte* buffer =
          rows == 1 ? own_[i][static_cast<size_t>(thread)].data() : shared_[i].data();
      const Range mine = rows == 1 ? Range{0, 1} : share(rows, thread, pool_.size());
      table.prepare[i](x + mine.begin * k, mine.end - mine.begin, k, buffer + mine.begin * stride,
                       stride);
      activations[i] = buffer;
    }
    if (rows > 1) pool_.barrier();
    for (const MatmulTarget& target : targets) {
      const PackedMatrix& weights = *target.weights;
      const ActivationKind kind = activation_of(weights.format);
      const Range panels = share(weights.panels(), thread, pool_.size());
      table.multiply[static_cast<size_t>(weights.format)](
          {.weights = weights.data.data(),
           .panel_bytes = weights.panel_bytes,
           .activations = activations[static_cast<size_t>(kind)],
           .activation_stride = activation_row_bytes(kind, k),
           .rows = rows,
           .k = k,
           .panel_begin = panels.begin,
           .panel_end = panels.end,
           .outputs = weights.outputs,
           .out = target.out,
           .out_stride = weights.outputs});
    }
  });
}

}  // namespace quern::kernels
