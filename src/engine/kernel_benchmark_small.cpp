// The rest of a step: norms, rope, residual, activation, preparing rows, and the fork-join itself.
// Each thread works on 64 rows of its own that stay in its second-level cache.

#include <fmt/format.h>

#include <chrono>
#include <numeric>

#include "core/model_config.h"
#include "engine/kernel_benchmark.h"
#include "kernels/aligned_buffer.h"
#include "kernels/ops.h"
#include "model/layers/rope.h"

namespace quern::engine {
namespace {

constexpr std::int64_t kHidden = 576, kInter = 1536, kRows = 64;
constexpr std::int64_t kHeads = 9, kDim = 64;
constexpr int kRounds = 4;  // over the same rows in one chunk

struct Buffers {
  explicit Buffers(int threads) {
    for (int i = 0; i < threads; ++i) {
      for (auto* list : {&x, &y}) {
        list->emplace_back(kRows * kInter * 4);
        auto* values = reinterpret_cast<float*>(list->back().data());
        for (std::int64_t j = 0; j < kRows * kInter; ++j) {
          values[j] = static_cast<float>(j % 97) * 0.01f - 0.5f;
        }
      }
      out.emplace_back(kRows * kInter * 4 * 2);
    }
  }
  static float* at(std::vector<kernels::AlignedBuffer>& list, int thread) {
    return reinterpret_cast<float*>(list[static_cast<size_t>(thread)].data());
  }
  std::vector<kernels::AlignedBuffer> x, y, out;
};

class Small {
 public:
  Small(ThreadPool& pool, const CaseSink& sink)
      : pool_(pool), sink_(sink), ops_(kernels::ops()), buffers_(pool.size()) {}

  // `body(x, y, out)` does one round over kRows rows; `bytes` are what it reads and writes.
  template <typename F>
  void add(const char* kernel, std::int64_t width, double bytes, F body) {
    sink_({.kernel = kernel,
           .shape = fmt::format("{} rows of {}", kRows * chunks() * kRounds, width),
           .bytes = bytes * static_cast<double>(chunks() * kRounds),
           .traffic = Limit::kCache,
           .run = [this, body] {
             pool_.for_each(chunks(), 1, [&](std::int64_t, std::int64_t, int thread) {
               for (int round = 0; round < kRounds; ++round) {
                 body(Buffers::at(buffers_.x, thread), Buffers::at(buffers_.y, thread),
                      Buffers::at(buffers_.out, thread));
               }
             });
           }});
  }

  void elementwise() {
    const kernels::Ops& ops = ops_;
    const double hidden = kRows * kHidden * 4, inter = kRows * kInter * 4;
    add("rms_norm", kHidden, 2 * hidden,
        [&ops](float* x, float* y, float* out) { ops.rms_norm(x, y, 1e-5f, kRows, kHidden, out); });
    add("residual add", kHidden, 3 * hidden,
        [&ops](float* x, float* y, float*) { ops.add(x, y, kRows * kHidden); });
    add("silu_mul", kInter, 3 * inter,
        [&ops](float* x, float* y, float* out) { ops.silu_mul(x, y, kRows * kInter, out); });
  }

  void prepare() {
    const kernels::Ops& ops = ops_;
    for (const std::int64_t width : {kHidden, kInter}) {
      for (const auto kind : {kernels::ActivationKind::kBF16, kernels::ActivationKind::kInt8}) {
        const bool int8 = kind == kernels::ActivationKind::kInt8;
        const std::int64_t stride = kernels::activation_row_bytes(kind, width);
        add(int8 ? "prepare int8" : "prepare bf16", width,
            static_cast<double>(kRows * (width * 4 + stride)),
            [&ops, kind, width, stride](float* x, float*, float* out) {
              ops.prepare[static_cast<size_t>(kind)](x, kRows, width,
                                                     reinterpret_cast<std::byte*>(out), stride);
            });
      }
    }
  }

  void rope() {
    ModelConfig config;
    config.head_dim = config.rope_dim = kDim;
    model::Rope rope(config, {});
    std::vector<std::int32_t> positions(kRows);
    std::iota(positions.begin(), positions.end(), 0);
    rope.plan(positions);
    add("rope", kHidden, 2.0 * kRows * kHidden * 4, [&rope](float* x, float*, float*) {
      for (std::int64_t t = 0; t < kRows; ++t) rope.rotate(t, x + t * kHidden, kHeads, kDim);
    });
  }

 private:
  // A pool of one thread takes all chunks as one.
  std::int64_t chunks() const { return pool_.size() == 1 ? 1 : std::int64_t{8} * pool_.size(); }

  ThreadPool& pool_;
  const CaseSink& sink_;
  const kernels::Ops& ops_;
  Buffers buffers_;
};

void spin(double seconds) {
  const auto start = std::chrono::steady_clock::now();
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() <
         seconds) {
  }
}

void fork_joins(ThreadPool& pool, const CaseSink& sink) {
  constexpr int kForks = 1000;
  const auto nothing = [](std::int64_t, std::int64_t, int) {};
  sink({.kernel = "fork-join",
        .shape = fmt::format("{} empty loops", kForks),
        .run = [&pool, nothing] {
          for (int i = 0; i < kForks; ++i) pool.for_each(pool.size(), 1, nothing);
        }});
  sink({.kernel = "fork-join",
        .shape = "1 ms of rest, then an empty loop",  // workers sleep after some 40 µs
        .run = [&pool, nothing] {
          spin(1e-3);
          pool.for_each(pool.size(), 1, nothing);
        }});
}

}  // namespace

void small_cases(ThreadPool& pool, const std::string&, const CaseSink& sink) {
  Small small(pool, sink);
  small.elementwise();
  small.prepare();
  small.rope();
  fork_joins(pool, sink);
}

}  // namespace quern::engine
