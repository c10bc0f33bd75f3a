// Latent attention by `cpu_flash` with 16 heads over rows of 512 + 64, as in DeepSeek-V2-Lite:
// absorbed decode over a cache that no cache of the processor holds, and prefill both ways, the
// expanded one with its up-projection in bf16.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "attention/backends/cpu_flash.h"
#include "engine/kernel_benchmark.h"
#include "kernels/matmul.h"

namespace quern::engine {
namespace {

constexpr attention::MlaLayer kLayer = {.heads = 16,
                                        .latent_dim = 512,
                                        .rope_dim = 64,
                                        .nope_dim = 128,
                                        .v_head_dim = 128,
                                        .scale = 0.0721688f};
constexpr std::int32_t kPage = 64;
constexpr std::int64_t kUpOutputs = kLayer.heads * (kLayer.nope_dim + kLayer.v_head_dim);
constexpr double kColdBytes = 128.0 * 1024 * 1024;

struct Shape {
  std::int32_t sequences, queries, length;
};

std::vector<float> floats(std::int64_t count, std::mt19937& random) {
  std::normal_distribution<float> normal;
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = normal(random);
  return values;
}

// A filled cache of `layers` layers, the pages in random order; each run is the next layer.
class LatentCache {
 public:
  LatentCache(ThreadPool& pool, DType type, const Shape& shape, bool expanded)
      : backend_(attention::make_cpu_flash(pool)),
        layout_(cache::latent_layout(type, kPage, kLayer.row_dim())),
        shape_(shape),
        expanded_(expanded),
        matmul_(pool, attention::kExpandRows, kLayer.latent_dim) {
    const std::int32_t per = (shape.length + kPage - 1) / kPage, pages = per * shape.sequences;
    layers_ = static_cast<std::int32_t>(std::ceil(kColdBytes / bytes()));
    store_ = std::make_unique<cache::KvStore>(layout_, layers_, pages);
    std::mt19937 random(3);
    fill(pool, pages, random);
    pages_.resize(static_cast<size_t>(pages));
    std::iota(pages_.begin(), pages_.end(), 0);
    std::shuffle(pages_.begin(), pages_.end(), random);
    for (std::int32_t s = 0; s < shape.sequences; ++s) {
      batch_.sequences.push_back(
          {s * shape.queries, shape.queries, shape.length,
           std::span(pages_).subspan(static_cast<size_t>(s) * static_cast<size_t>(per),
                                     static_cast<size_t>(per))});
    }
    const std::int64_t tokens = std::int64_t{shape.sequences} * shape.queries;
    batch_.token_ids.resize(static_cast<size_t>(tokens));
    row_ = floats(tokens * kLayer.row_dim(), random);
    q_ = floats(tokens * kLayer.heads * kLayer.row_dim(), random);
    out_.resize(static_cast<size_t>(tokens * kLayer.heads * kLayer.latent_dim));
    if (expanded) make_expansion(pool, random);
    backend_->plan(batch_);
  }

  // Bytes of rows that a run reads from memory at least once.
  double bytes() const {
    return static_cast<double>(layout_.bytes_per_token(1)) * shape_.length * shape_.sequences;
  }

  // A query's dot product and weighted sum for each key it sees; expanded, each row's projection.
  double operations() const {
    double seen = 0;
    for (std::int32_t q = 0; q < shape_.queries; ++q)
      seen += shape_.length - shape_.queries + q + 1;
    const double heads = kLayer.heads * shape_.sequences;
    if (!expanded_) return 2 * seen * heads * (kLayer.row_dim() + kLayer.latent_dim);
    return 2 * seen * heads * (kLayer.qk_dim() + kLayer.v_head_dim) +
           2.0 * shape_.length * shape_.sequences * kUpOutputs * kLayer.latent_dim;
  }

  void run() {
    attention::MlaLayer layer = kLayer;
    layer.layer = next_++ % layers_;
    layer.only_absorbed = !expanded_;
    backend_->forward_mla(layer,
                          {.row = row_.data(),
                           .q_absorbed = q_.data(),
                           .q = q_.data(),
                           .expand = &expand_,
                           .out_latent = out_.data(),
                           .out = out_.data()},
                          *store_);
  }

 private:
  void fill(ThreadPool& pool, std::int32_t pages, std::mt19937& random) {
    const std::vector<float> sample = floats(kPage * kLayer.row_dim(), random);
    const std::int64_t records = std::int64_t{layers_} * pages;
    pool.for_each(records, pool.even_grain(records),
                  [&](std::int64_t begin, std::int64_t end, int) {
                    for (std::int64_t i = begin; i < end; ++i) {
                      for (std::int64_t slot = 0; slot < kPage; ++slot) {
                        store_->store(i / pages, i % pages, 0, slot,
                                      sample.data() + slot * kLayer.row_dim(), nullptr);
                      }
                    }
                  });
  }

  void make_expansion(ThreadPool& pool, std::mt19937& random) {
    std::vector<std::uint16_t> weights(static_cast<size_t>(kUpOutputs * kLayer.latent_dim));
    for (std::uint16_t& weight : weights) {
      weight = bf16_from_f32(static_cast<float>(random() & 0xFFFFu) / 0x1p20f - 0x1p-5f);
    }
    const TensorInfo info{.name = "random",
                          .dtype = DType::kBF16,
                          .shape = {kUpOutputs, kLayer.latent_dim},
                          .bytes = static_cast<std::int64_t>(2 * weights.size())};
    up_ = kernels::pack({&info, reinterpret_cast<const std::byte*>(weights.data())},
                        kernels::PackMode::kKeep, pool, arena_);
    keys_.resize(static_cast<size_t>(attention::kExpandRows * kUpOutputs));
    expand_ = [this](const float* latents, std::int64_t n) -> attention::ExpandedLatents {
      const kernels::MatmulTarget target[] = {{&up_, keys_.data()}};
      matmul_(latents, n, target);
      const std::int64_t head = kLayer.nope_dim + kLayer.v_head_dim;
      return {keys_.data(), keys_.data() + kLayer.nope_dim, kUpOutputs, head, kUpOutputs, head};
    };
  }

  std::unique_ptr<attention::AttentionBackend> backend_;
  cache::KvLayout layout_;
  Shape shape_;
  bool expanded_;
  std::int32_t layers_ = 0, next_ = 0;
  kernels::Arena arena_;
  kernels::Matmul matmul_;
  kernels::PackedMatrix up_;
  attention::ExpandLatents expand_;
  std::unique_ptr<cache::KvStore> store_;
  std::vector<std::int32_t> pages_;
  Batch batch_;
  std::vector<float> row_, q_, out_, keys_;
};

void measure(ThreadPool& pool, const std::string& kernel, DType type, const Shape& shape,
             bool expanded, const CaseSink& sink) {
  LatentCache cache(pool, type, shape, expanded);
  sink({.kernel = kernel,
        .shape = shape.queries > 1
                     ? fmt::format("{} queries, context {}", shape.queries, shape.length)
                     : fmt::format("batch {}, context {}", shape.sequences, shape.length),
        .bytes = cache.bytes(),
        .operations = cache.operations(),
        .arithmetic = type == DType::kF32 ? Limit::kF32 : Limit::kBF16,
        .run = [&cache] { cache.run(); }});
}

}  // namespace

void latent_attention_cases(ThreadPool& pool, const std::string& only, const CaseSink& sink) {
  const auto wanted = [&](const std::string& kernel) {
    return kernel.find(only) != std::string::npos;
  };
  for (const auto& [type, name] :
       {std::pair{DType::kBF16, "bf16"}, {DType::kF8E4M3, "fp8_e4m3"}, {DType::kF32, "f32"}}) {
    const std::string decode = fmt::format("decode MLA {}", name);
    if (!wanted(decode)) continue;
    for (const Shape& shape : {Shape{1, 1, 512}, {1, 1, 4096}, {1, 1, 16384}, {16, 1, 16384}}) {
      measure(pool, decode, type, shape, false, sink);
    }
  }
  for (const bool expanded : {false, true}) {
    const std::string prefill = expanded ? "prefill MLA expanded" : "prefill MLA absorbed";
    if (!wanted(prefill)) continue;
    for (const Shape& shape : {Shape{1, 512, 512}, {1, 512, 4096}, {1, 256, 4096}}) {
      measure(pool, prefill, DType::kBF16, shape, expanded, sink);
    }
  }
}

}  // namespace quern::engine
