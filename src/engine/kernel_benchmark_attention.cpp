// Attention by `cpu_flash` on the default model's heads: decode over a cache that no cache of the
// processor holds, prefill of 512 tokens after none and after many.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numeric>
#include <random>

#include "attention/backends/cpu_flash.h"
#include "engine/kernel_benchmark.h"

namespace quern::engine {
namespace {

constexpr std::int32_t kHeads = 9, kKvHeads = 3, kDim = 64, kPage = 64;
constexpr double kColdBytes = 128.0 * 1024 * 1024;

// A filled cache of `layers` layers for `sequences` sequences of `length` tokens, the pages in
// random order; each run is the next layer.
class Cache {
 public:
  Cache(ThreadPool& pool, DType type, std::int32_t sequences, std::int32_t queries,
        std::int32_t length)
      : backend_(attention::make_cpu_flash(pool)),
        layout_(cache::packed_layout(type, kPage, kKvHeads, kDim, kDim)),
        sequences_(sequences),
        queries_(queries),
        length_(length) {
    const std::int32_t per = (length + kPage - 1) / kPage, pages = per * sequences;
    const double layer_bytes = static_cast<double>(pages) * kPage * kv_bytes_per_token();
    layers_ = static_cast<std::int32_t>(std::ceil(kColdBytes / layer_bytes));
    store_ = std::make_unique<cache::KvStore>(layout_, layers_, pages);
    fill(pool, pages);
    pages_.resize(static_cast<size_t>(pages));
    std::iota(pages_.begin(), pages_.end(), 0);
    std::mt19937 random(3);
    std::shuffle(pages_.begin(), pages_.end(), random);
    for (std::int32_t s = 0; s < sequences; ++s) {
      const auto own = std::span(pages_).subspan(static_cast<size_t>(s * per), per);
      batch_.sequences.push_back({s * queries, queries, length, own});
    }
    const std::int64_t tokens = std::int64_t{sequences} * queries;
    q_ = floats(tokens * kHeads * kDim, random);
    k_ = floats(tokens * kKvHeads * kDim, random);
    v_ = floats(tokens * kKvHeads * kDim, random);
    out_.resize(q_.size());
    batch_.token_ids.resize(static_cast<size_t>(tokens));
    batch_.positions.resize(static_cast<size_t>(tokens));
    backend_->plan(batch_);
  }

  double kv_bytes_per_token() const { return static_cast<double>(layout_.bytes_per_token(1)); }

  // Bytes of keys and values that a run reads from memory at least once.
  double bytes() const { return kv_bytes_per_token() * length_ * sequences_; }

  // Useful operations: a query's dot product and weighted sum for each key it sees.
  double operations() const {
    double seen = 0;
    for (std::int32_t q = 0; q < queries_; ++q) seen += length_ - queries_ + q + 1;
    return seen * sequences_ * kHeads * kDim * 4;
  }

  void run() {
    attention::AttentionLayer layer{.layer = next_++ % layers_,
                                    .heads = kHeads,
                                    .kv_heads = kKvHeads,
                                    .head_dim = kDim,
                                    .v_head_dim = kDim,
                                    .scale = 0.125f};
    backend_->forward(layer, q_.data(), k_.data(), v_.data(), *store_, out_.data());
  }

 private:
  void fill(ThreadPool& pool, std::int32_t pages) {
    std::mt19937 random(5);
    std::uniform_real_distribution<float> uniform(-1, 1);
    std::vector<float> values(2 * kDim);
    for (std::int64_t slot = 0; slot < kPage; ++slot) {
      for (float& value : values) value = uniform(random);
      store_->store(0, 0, 0, slot, values.data(), values.data() + kDim);
    }
    const std::byte* first = store_->record(0, 0, 0);
    const std::vector<std::byte> sample(first, first + layout_.record_bytes());
    const std::int64_t records = std::int64_t{layers_} * pages;
    pool.for_each(
        records, pool.even_grain(records), [&](std::int64_t begin, std::int64_t end, int) {
          for (std::int64_t i = begin; i < end; ++i) {
            for (std::int64_t head = 0; head < kKvHeads; ++head) {
              std::memcpy(store_->record(i / pages, i % pages, head), sample.data(), sample.size());
            }
          }
        });
  }

  static std::vector<float> floats(std::int64_t count, std::mt19937& random) {
    std::normal_distribution<float> normal;
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) value = normal(random);
    return values;
  }

  std::unique_ptr<attention::AttentionBackend> backend_;
  cache::KvLayout layout_;
  std::int32_t sequences_, queries_, length_, layers_ = 0, next_ = 0;
  std::unique_ptr<cache::KvStore> store_;
  std::vector<std::int32_t> pages_;
  Batch batch_;
  std::vector<float> q_, k_, v_, out_;
};

struct Shape {
  std::int32_t sequences, queries, length;
};

void measure(ThreadPool& pool, const std::string& kernel, DType type, const Shape& shape,
             const CaseSink& sink) {
  Cache cache(pool, type, shape.sequences, shape.queries, shape.length);
  // A decode of a short context takes microseconds: several layers make one run.
  const int layers = shape.queries > 1 ? 1 : std::max(1, 16384 / shape.length / shape.sequences);
  sink({.kernel = kernel,
        .shape = shape.queries > 1
                     ? fmt::format("{} queries, context {}", shape.queries, shape.length)
                     : fmt::format("batch {}, context {}", shape.sequences, shape.length),
        .bytes = cache.bytes() * layers,
        .operations = cache.operations() * layers,
        .arithmetic = type == DType::kF32 ? Limit::kF32 : Limit::kBF16,
        .run = [&cache, layers] {
          for (int i = 0; i < layers; ++i) cache.run();
        }});
}

}  // namespace

void attention_cases(ThreadPool& pool, const std::string& only, const CaseSink& sink) {
  constexpr std::pair<DType, const char*> kTypes[] = {{DType::kBF16, "bf16"},
                                                      {DType::kF32, "f32"},
                                                      {DType::kF8E4M3, "fp8_e4m3"},
                                                      {DType::kI8, "int8"}};
  for (const auto& [type, suffix] : kTypes) {
    const std::string decode = std::string("decode attention ") + suffix;
    const std::string prefill = std::string("prefill attention ") + suffix;
    if (decode.find(only) != std::string::npos) {
      for (const Shape& shape :
           {Shape{1, 1, 512}, {1, 1, 2048}, {1, 1, 8192}, {1, 1, 16384}, {64, 1, 512}}) {
        measure(pool, decode, type, shape, sink);
      }
    }
    if (prefill.find(only) != std::string::npos) {
      for (const Shape& shape : {Shape{1, 512, 512}, {1, 512, 2048}, {1, 512, 4096}}) {
        measure(pool, prefill, type, shape, sink);
      }
    }
  }
}

}  // namespace quern::engine
