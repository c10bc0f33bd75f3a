#include "kernels/matmul.h"

#include <algorithm>

#include "base/error.h"

namespace quern::kernels {
namespace {

constexpr ActivationKind kKinds[] = {ActivationKind::kF32, ActivationKind::kBF16,
                                     ActivationKind::kInt8};
// Panels that are packed at a time: as many as the widest tiles take.
constexpr std::int64_t kOwnPanels = 2;

}  // namespace

Matmul::Matmul(ThreadPool& pool, std::int64_t max_rows, std::int64_t max_k)
    : pool_(pool),
      max_rows_(max_rows),
      max_k_(max_k),
      own_bytes_(kOwnPanels * panel_bytes(WeightFormat::kF32, max_k)),
      own_(pool.size() * own_bytes_) {
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
  pool_.for_each(panels, pool_.even_grain(panels),
                 [&](std::int64_t begin, std::int64_t end, int thread) {
                   std::int64_t first = 0;  // of the target's panels, among all targets'
                   for (const auto& [weights, out] : targets) {
                     const auto kind = static_cast<size_t>(activation_of(weights->format));
                     multiply({.weights = weights,
                               .activations = prepared_[kind].data(),
                               .rows = rows,
                               .panel_begin = std::max(std::int64_t{0}, begin - first),
                               .panel_end = std::min(weights->panels(), end - first),
                               .out = out},
                              thread);
                     first += weights->panels();
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

void Matmul::multiply(const PreparedProduct& product, int thread) {
  if (product.panel_begin >= product.panel_end) return;
  const PackedMatrix& weights = *product.weights;
  CHECK(weights.k <= max_k_, weights.k);
  MatmulArgs args = {
      .weights = weights.data.data(),
      .panel_bytes = weights.panel_bytes,
      .activations = product.activations,
      .activation_stride = activation_row_bytes(activation_of(weights.format), weights.k),
      .rows = product.rows,
      .k = weights.k,
      .panel_begin = product.panel_begin,
      .panel_end = product.panel_end,
      .outputs = weights.outputs,
      .out = product.out,
      .out_stride = weights.outputs};
  const auto kernel = ops().multiply[static_cast<size_t>(weights.format)];
  if (!weights.stored) return kernel(args);
  std::byte* const own = own_.data() + thread * own_bytes_;
  args.weights = own;
  args.panel_begin = 0;
  for (std::int64_t first = product.panel_begin; first < product.panel_end; first += kOwnPanels) {
    args.panel_end = std::min(kOwnPanels, product.panel_end - first);
    for (std::int64_t i = 0; i < args.panel_end; ++i) {
      pack_panel(weights.stored->view(), weights.format, first + i, own + i * args.panel_bytes);
    }
    args.outputs = weights.outputs - first * kPanel;
    args.out = product.out + first * kPanel;
    kernel(args);
  }
}

}  // namespace quern::kernels
