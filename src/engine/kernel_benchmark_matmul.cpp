// Matmul of every stored type: the matrices of a layer, as the model calls them (quantising and
// fork-joins included), over so many layers that no cache holds them; and the tied head.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>

#include "engine/kernel_benchmark_data.h"
#include "kernels/matmul.h"

namespace quern::engine {
namespace {

using kernels::kPanel;
using kernels::Matmul;
using kernels::MatmulTarget;
using kernels::PackedMatrix;

constexpr std::int64_t kRows[] = {1, 4, 8, 16, 64, 512};

struct Shape {
  std::int64_t hidden, kv, inter;
};
constexpr Shape kDefaultModel{576, 192, 1536};  // SmolLM2-135M
constexpr Shape kWide{2048, 512, 5632};         // K-quants need rows of a multiple of 256
constexpr std::int64_t kVocab = 49152;

PackedMatrix random_matrix(DType type, std::int64_t outputs, std::int64_t k, ThreadPool& pool,
                           kernels::Arena& arena) {
  const auto bytes = random_weights(type, outputs * k, static_cast<unsigned>(outputs + k));
  const TensorInfo info{.name = "random",
                        .dtype = type,
                        .shape = {outputs, k},
                        .bytes = static_cast<std::int64_t>(bytes.size())};
  return pack({&info, bytes.data()}, kernels::PackMode::kKeep, pool, arena);
}

struct LayerMatrices {
  PackedMatrix q, k, v, o, gate, up, down;
};

// One stored type's layers, and where their products go.
class Layers {
 public:
  Layers(ThreadPool& pool, DType type, const Shape& shape)
      : shape_(shape),
        parameters_(shape.hidden * (2 * shape.hidden + 2 * shape.kv + 3 * shape.inter)),
        bytes_(row_bytes(type, parameters_)),
        matmul_(pool, kRows[5], shape.inter),
        x_(random_inputs(kRows[5] * shape.inter)) {
    for (std::vector<float>& out : out_) {
      out.resize(static_cast<size_t>(kRows[5] * shape.inter));
    }
    while (static_cast<std::int64_t>(layers_.size()) * bytes_ < kColdBytes) {
      const auto make = [&](std::int64_t outputs, std::int64_t k) {
        return random_matrix(type, outputs, k, pool, arena_);
      };
      layers_.push_back({make(shape.hidden, shape.hidden), make(shape.kv, shape.hidden),
                         make(shape.kv, shape.hidden), make(shape.hidden, shape.hidden),
                         make(shape.inter, shape.hidden), make(shape.inter, shape.hidden),
                         make(shape.hidden, shape.inter)});
    }
  }

  KernelCase product(DType type, std::int64_t rows) {
    // Runs go round all layers; each is short, to fit between two disturbances.
    const std::int64_t count = std::clamp<std::int64_t>(
        (std::int64_t{16} << 20) * 16 / (bytes_ * std::max<std::int64_t>(rows, 16)), 1,
        static_cast<std::int64_t>(layers_.size()));
    const double parameters = static_cast<double>(parameters_ * count);
    return {.kernel = fmt::format("matmul {}", name_of(type)),
            .shape = fmt::format("layers of {}, M = {}", shape_.hidden, rows),
            .bytes = static_cast<double>(bytes_ * count),
            .operations = 2 * parameters * static_cast<double>(rows),
            .arithmetic = arithmetic_of(layers_.front().q.format),
            .run = [this, rows, count] { run(rows, count); }};
  }

 private:
  void run(std::int64_t rows, std::int64_t count) {
    for (std::int64_t i = 0; i < count; ++i, ++next_) {
      const LayerMatrices& layer = layers_[next_ % layers_.size()];
      const MatmulTarget qkv[] = {
          {&layer.q, out_[0].data()}, {&layer.k, out_[1].data()}, {&layer.v, out_[2].data()}};
      const MatmulTarget o[] = {{&layer.o, out_[0].data()}};
      const MatmulTarget gate_up[] = {{&layer.gate, out_[0].data()}, {&layer.up, out_[1].data()}};
      const MatmulTarget down[] = {{&layer.down, out_[0].data()}};
      matmul_(x_.data(), rows, qkv);
      matmul_(x_.data(), rows, o);
      matmul_(x_.data(), rows, gate_up);
      matmul_(x_.data(), rows, down);
    }
  }

  Shape shape_;
  std::int64_t parameters_, bytes_;  // of a layer
  Matmul matmul_;
  std::vector<float> x_;
  std::array<std::vector<float>, 3> out_;
  kernels::Arena arena_;
  std::vector<LayerMatrices> layers_;
  size_t next_ = 0;
};

// The head, in copies enough that no cache holds them.
class Head {
 public:
  Head(ThreadPool& pool, DType type)
      : bytes_(row_bytes(type, kVocab * kDefaultModel.hidden)),
        matmul_(pool, kRows[5], kDefaultModel.hidden),
        x_(random_inputs(kRows[5] * kDefaultModel.hidden)),
        out_(static_cast<size_t>(kRows[5] * kVocab)) {
    while (static_cast<std::int64_t>(copies_.size()) * bytes_ < kColdBytes) {
      copies_.push_back(random_matrix(type, kVocab, kDefaultModel.hidden, pool, arena_));
    }
  }

  KernelCase product(DType type, std::int64_t rows) {
    return {.kernel = fmt::format("head {}", name_of(type)),
            .shape = fmt::format("{} x {}, M = {}", kVocab, kDefaultModel.hidden, rows),
            .bytes = static_cast<double>(bytes_),
            .operations = 2.0 * static_cast<double>(kVocab * kDefaultModel.hidden * rows),
            .arithmetic = arithmetic_of(copies_.front().format),
            .run = [this, rows] {
              const MatmulTarget target[] = {{&copies_[next_++ % copies_.size()], out_.data()}};
              matmul_(x_.data(), rows, target);
            }};
  }

 private:
  std::int64_t bytes_;
  Matmul matmul_;
  std::vector<float> x_, out_;
  kernels::Arena arena_;
  std::vector<PackedMatrix> copies_;
  size_t next_ = 0;
};

// One large matrix packed panel by panel, as for one use: what is packed stays in the cache.
class Packing {
 public:
  Packing(ThreadPool& pool, DType type)
      : pool_(pool),
        outputs_(kColdBytes / row_bytes(type, kWide.hidden) / kPanel * kPanel),
        stored_(random_weights(type, outputs_ * kWide.hidden, 5)),
        info_{.name = "random",
              .dtype = type,
              .shape = {outputs_, kWide.hidden},
              .bytes = static_cast<std::int64_t>(stored_.size())},
        matrix_(leave_stored({&info_, stored_.data()}, kernels::PackMode::kKeep, pool)),
        panels_(pool.size() * matrix_.panel_bytes) {}

  KernelCase packing() {
    return {.kernel = fmt::format("pack {}", name_of(info_.dtype)),
            .shape = fmt::format("{} x {}", outputs_, kWide.hidden),
            .bytes = static_cast<double>(info_.bytes),
            .run = [this] {
              const std::int64_t count = matrix_.panels();
              pool_.for_each(count, pool_.even_grain(count),
                             [this](std::int64_t begin, std::int64_t end, int thread) {
                               std::byte* out = panels_.data() + thread * matrix_.panel_bytes;
                               for (std::int64_t panel = begin; panel < end; ++panel) {
                                 pack_panel(matrix_.stored->view(), matrix_.format, panel, out);
                               }
                             });
            }};
  }

 private:
  ThreadPool& pool_;
  std::int64_t outputs_;
  std::vector<std::byte> stored_;
  TensorInfo info_;
  PackedMatrix matrix_;
  kernels::AlignedBuffer panels_;  // [threads] one each
};

bool wanted(const std::string& kernel, const std::string& only) {
  return kernel.find(only) != std::string::npos;
}

}  // namespace

void matmul_cases(ThreadPool& pool, const std::string& only, const CaseSink& sink) {
  constexpr DType kTypes[] = {DType::kQ4_0, DType::kQ4_1, DType::kQ5_0, DType::kQ5_1,
                              DType::kQ8_0, DType::kQ4_K, DType::kQ5_K, DType::kQ6_K,
                              DType::kBF16, DType::kF16,  DType::kF32};
  for (const DType type : kTypes) {
    if (!wanted(fmt::format("matmul {}", name_of(type)), only)) continue;
    const bool k_quant = dtype_info(type).block_size > kernels::kBlock;
    Layers layers(pool, type, k_quant ? kWide : kDefaultModel);
    for (const std::int64_t rows : kRows) sink(layers.product(type, rows));
  }
  for (const DType type : {DType::kQ8_0, DType::kBF16}) {
    if (!wanted(fmt::format("head {}", name_of(type)), only)) continue;
    Head head(pool, type);
    for (const std::int64_t rows : kRows) sink(head.product(type, rows));
  }
  for (const DType type : kTypes) {
    if (!wanted(fmt::format("pack {}", name_of(type)), only)) continue;
    Packing packing(pool, type);
    sink(packing.packing());
  }
}

}  // namespace quern::engine
