// The CPU backends against the reference attention cases, and the promise of equal bits. intel_amx
// runs on emulated tiles, and on this machine's where it has them.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>

#include "attention/backends/cpu_flash.h"
#include "attention/backends/intel_amx.h"
#include "attention/backends/torch_native.h"
#include "kernels/ops.h"
#include "kernels/test_safetensors.h"

#if defined(QUERN_HAS_SIMDE)
namespace quern::kernels {
void attend_bf16_amx_emulated(const AttendArgs&, int rows);
}
#endif

namespace quern::attention {
namespace {

using Make = std::unique_ptr<AttentionBackend> (*)(ThreadPool&);

struct Problem {
  AttentionLayer layer;
  std::vector<std::int32_t> kv_lens, q_lens;
  std::vector<float> q, k, v;  // k and v of all tokens of all sequences, [Σ kv_len, kv_heads, dim]
};

// Runs a problem: the keys before the new ones are stored by earlier passes of at most `chunk`
// tokens, then the last queries as one batch.
std::vector<float> run(Make make, LayoutList (*layouts)(const Needs&), const Problem& problem,
                       int threads, std::int64_t page_size, KvType type, std::int32_t chunk) {
  ThreadPool pool(threads);
  const auto backend = make(pool);
  const AttentionLayer& layer = problem.layer;
  Needs needs;
  needs.kv_heads = layer.kv_heads;
  needs.head_dim = layer.head_dim;
  needs.v_head_dim = layer.v_head_dim;
  needs.page_size = page_size;
  needs.kv_type = type;
  const cache::KvLayout layout = layouts(needs).at(0);
  const size_t n = problem.kv_lens.size();
  std::vector<std::vector<std::int32_t>> pages(n);
  std::int32_t page = 0;
  for (size_t s = 0; s < n; ++s) {
    for (std::int32_t t = 0; t < problem.kv_lens[s]; t += layout.page_size)
      pages[s].push_back(page++);
    std::reverse(pages[s].begin(), pages[s].end());  // order must not matter
  }
  cache::KvStore store(layout, layer.layer + 1, page);
  const auto row = [&](std::int64_t dim) { return layer.kv_heads * dim; };
  std::int64_t first_token = 0;
  for (size_t s = 0; s < n; ++s) {  // the prefix, sequence by sequence
    const std::int32_t prefix = problem.kv_lens[s] - problem.q_lens[s];
    for (std::int32_t begin = 0; begin < prefix; begin += chunk) {
      const std::int32_t count = std::min(chunk, prefix - begin);
      Batch batch;
      batch.token_ids.resize(static_cast<size_t>(count));
      batch.sequences = {{0, count, begin + count, pages[s]}};
      std::vector<float> q(static_cast<size_t>(count * layer.heads * layer.head_dim)),
          out(static_cast<size_t>(count * layer.heads * layer.v_head_dim));
      backend->plan(batch);
      backend->forward(
          layer, q.data(), problem.k.data() + (first_token + begin) * row(layer.head_dim),
          problem.v.data() + (first_token + begin) * row(layer.v_head_dim), store, out.data());
    }
    first_token += problem.kv_lens[s];
  }
  Batch batch;
  std::vector<float> k, v;
  first_token = 0;
  for (size_t s = 0; s < n; ++s) {
    batch.sequences.push_back({static_cast<std::int32_t>(batch.token_ids.size()), problem.q_lens[s],
                               problem.kv_lens[s], pages[s]});
    batch.token_ids.resize(batch.token_ids.size() + static_cast<size_t>(problem.q_lens[s]));
    const std::int64_t begin = first_token + problem.kv_lens[s] - problem.q_lens[s];
    first_token += problem.kv_lens[s];
    k.insert(k.end(), problem.k.begin() + begin * row(layer.head_dim),
             problem.k.begin() + first_token * row(layer.head_dim));
    v.insert(v.end(), problem.v.begin() + begin * row(layer.v_head_dim),
             problem.v.begin() + first_token * row(layer.v_head_dim));
  }
  std::vector<float> out(batch.token_ids.size() *
                         static_cast<size_t>(layer.heads * layer.v_head_dim));
  backend->plan(batch);
  backend->forward(layer, problem.q.data(), k.data(), v.data(), store, out.data());
  return out;
}

#if defined(QUERN_HAS_SIMDE)
std::unique_ptr<AttentionBackend> make_emulated_amx(ThreadPool& pool) {
  return make_tiled(pool, kIntelAmxInfo, kernels::attend_bf16_amx_emulated, kernels::kTileRows);
}
#endif

struct Backend {
  const char* name;
  Make make;
  LayoutList (*layouts)(const Needs&);
  bool rounds;  // queries and probabilities to bf16, over bf16 pages
  bool keeps_f32 = true;
};

std::vector<Backend> all_backends() {
  const bool avx512 = kernels::ops().isa == kernels::Isa::kAvx512;
  std::vector<Backend> all = {{"torch_native", make_torch_native, torch_native_layouts, false},
                              {"cpu_flash", make_cpu_flash, cpu_flash_layouts, avx512}};
  if (kernels::tile_attention()) {
    all.push_back({"intel_amx", make_intel_amx, intel_amx_layouts, true, false});
  }
#if defined(QUERN_HAS_SIMDE)
  if (kernels::ops_for(kernels::Isa::kAvx2)) {
    all.push_back({"intel_amx, emulated", make_emulated_amx, intel_amx_layouts, true, false});
  }
#endif
  return all;
}

// Those that keep the promise of equal bits at any batch, chunk, page size and number of threads.
std::vector<Backend> tiled_backends() {
  std::vector<Backend> tiled = all_backends();
  tiled.erase(tiled.begin());
  return tiled;
}

TEST(Backends, MatchTheReferenceCases) {
  const std::string folder = QUERN_TEST_DATA "/attention/";
  std::ifstream file(folder + "cases.json");
  const auto cases = nlohmann::json::parse(file).at("cases");
  int ran = 0;
  for (const auto& [name, c] : cases.items()) {
    if (name.starts_with("mla") || name.starts_with("cross")) continue;  // other layers' shapes
    const GoldenArrays golden(folder + std::string(c.at("file")));
    Problem problem;
    problem.layer = {.layer = 1,
                     .heads = c.at("heads"),
                     .kv_heads = c.at("kv_heads"),
                     .head_dim = c.at("head_dim"),
                     .v_head_dim = c.at("v_head_dim"),
                     .scale = c.at("scale"),
                     .window = c.at("window"),
                     .soft_cap = c.at("soft_cap"),
                     .sinks = nullptr,
                     .causal = c.at("causal")};
    std::vector<float> sinks;
    if (golden.has("sinks")) {
      sinks = golden.floats("sinks");
      problem.layer.sinks = sinks.data();
    }
    problem.kv_lens = golden.as<std::int32_t>("kv_lens");
    problem.q_lens = golden.as<std::int32_t>("q_lens");
    problem.q = golden.floats("q");
    const auto keys = golden.floats("k_cache"), values = golden.floats("v_cache");
    const auto table = golden.as<std::int32_t>("page_table");
    const std::int64_t page_size = c.at("page_size");
    const std::int64_t width = golden.shape("page_table")[1];
    for (size_t s = 0; s < problem.kv_lens.size(); ++s) {
      for (std::int64_t t = 0; t < problem.kv_lens[s]; ++t) {
        const std::int64_t slot =
            table[s * static_cast<size_t>(width) + static_cast<size_t>(t / page_size)] * page_size +
            t % page_size;
        const auto copy = [&](const std::vector<float>& from, std::int64_t dim,
                              std::vector<float>& to) {
          const std::int64_t count = problem.layer.kv_heads * dim;
          to.insert(to.end(), from.begin() + slot * count, from.begin() + (slot + 1) * count);
        };
        copy(keys, problem.layer.head_dim, problem.k);
        copy(values, problem.layer.v_head_dim, problem.v);
      }
    }
    const auto expected = golden.floats("out");
    for (const Backend& backend : all_backends()) {
      for (KvType type : {KvType::kF32, KvType::kBF16}) {  // the inputs are bf16: both are exact
        if (type == KvType::kF32 && !backend.keeps_f32) continue;
        const auto out = run(backend.make, backend.layouts, problem, 2, 16, type, 7);
        ASSERT_EQ(out.size(), expected.size());
        const float tolerance = type == KvType::kBF16 && backend.rounds ? 1e-2f : 2e-5f;
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_NEAR(out[i], expected[i], tolerance) << backend.name << " " << name << " at " << i;
        }
      }
    }
    ++ran;
  }
  EXPECT_GE(ran, 13);
}

struct Heads {
  std::int32_t heads = 9, kv_heads = 3, head_dim = 40, v_head_dim = 24;
};

Problem random_problem(std::vector<std::int32_t> kv_lens, std::vector<std::int32_t> q_lens,
                       std::int32_t window, const Heads& heads = {}) {
  Problem problem;
  problem.layer = {.layer = 0,
                   .heads = heads.heads,
                   .kv_heads = heads.kv_heads,
                   .head_dim = heads.head_dim,
                   .v_head_dim = heads.v_head_dim,
                   .scale = 0.2f,
                   .window = window};
  problem.kv_lens = std::move(kv_lens);
  problem.q_lens = std::move(q_lens);
  std::mt19937 engine(3);
  std::normal_distribution<float> normal;
  const auto fill = [&](std::vector<float>& to, std::int64_t count) {
    to.resize(static_cast<size_t>(count));
    for (float& value : to) value = normal(engine);
  };
  std::int64_t tokens = 0, queries = 0;
  for (std::int32_t n : problem.kv_lens) tokens += n;
  for (std::int32_t n : problem.q_lens) queries += n;
  fill(problem.k, tokens * heads.kv_heads * heads.head_dim);
  fill(problem.v, tokens * heads.kv_heads * heads.v_head_dim);
  fill(problem.q, queries * heads.heads * heads.head_dim);
  return problem;
}

TEST(CpuFlash, AgreesWithTorchNativeOverLongContexts) {
  for (std::int32_t window : {0, 300}) {
    const Problem problem = random_problem({700, 1, 513, 64, 255}, {1, 1, 40, 64, 1}, window);
    for (std::int64_t page_size : {16, 64, 128}) {
      const auto expected =
          run(make_torch_native, torch_native_layouts, problem, 2, page_size, KvType::kF32, 512);
      const auto out =
          run(make_cpu_flash, cpu_flash_layouts, problem, 2, page_size, KvType::kF32, 512);
      for (size_t i = 0; i < out.size(); ++i) ASSERT_NEAR(out[i], expected[i], 1e-4f) << i;
    }
  }
}

// 8-bit pages against plain loops over what they hold. Those over bf16 round int8 · scale to it.
TEST(CpuFlash, AgreesWithTorchNativeOverNarrowPages) {
  for (const KvType type : {KvType::kInt8, KvType::kFp8E4M3}) {
    for (const Heads& heads : {Heads{9, 3, 64, 64}, Heads{4, 2, 80, 40}, Heads{3, 1, 17, 17}}) {
      Problem problem = random_problem({700, 1, 513, 64}, {1, 1, 40, 64}, 0, heads);
      problem.layer.scale = 1.0f / std::sqrt(static_cast<float>(heads.head_dim));
      const auto expected = run(make_torch_native, torch_native_layouts, problem, 2, 16, type, 512);
      for (const std::int64_t page_size : {16, 64}) {
        const auto out = run(make_cpu_flash, cpu_flash_layouts, problem, 2, page_size, type, 512);
        ASSERT_EQ(out.size(), expected.size());
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_NEAR(out[i], expected[i], 2e-2f) << heads.head_dim << " " << page_size;
        }
      }
    }
  }
}

TEST(CpuFlash, BitsOverNarrowPagesDependOnTheSequenceOnly) {
  for (const KvType type : {KvType::kInt8, KvType::kFp8E4M3}) {
    const Problem whole = random_problem({600, 77}, {600, 77}, 0);
    const auto expected = run(make_cpu_flash, cpu_flash_layouts, whole, 1, 16, type, 600);
    for (const std::int32_t queries : {1, 16, 33}) {
      Problem tail = whole;
      tail.kv_lens = {600};
      tail.q_lens = {queries};
      tail.q.assign(whole.q.begin() + (600 - queries) * 9 * 40, whole.q.begin() + 600 * 9 * 40);
      const auto out = run(make_cpu_flash, cpu_flash_layouts, tail, 2, 64, type, 7);
      EXPECT_EQ(0, std::memcmp(out.data(), &expected[(600 - static_cast<size_t>(queries)) * 9 * 24],
                               out.size() * 4));
    }
  }
}

// Head sizes that no vector divides, heads as wide as a latent, one head, a group larger than a
// tile.
TEST(Tiled, HeadsOfAnyShape) {
  for (const Heads& heads :
       {Heads{1, 1, 17, 17}, Heads{4, 4, 40, 40}, Heads{4, 2, 80, 80}, Heads{3, 1, 96, 64},
        Heads{17, 1, 64, 64}, Heads{2, 1, 256, 256}, Heads{2, 1, 576, 512}}) {
    Problem problem = random_problem({300, 1, 77}, {1, 1, 20}, 0, heads);
    problem.layer.scale = 1.0f / std::sqrt(static_cast<float>(heads.head_dim));
    const auto expected =
        run(make_torch_native, torch_native_layouts, problem, 2, 16, KvType::kBF16, 512);
    for (const Backend& backend : tiled_backends()) {
      const auto out = run(backend.make, backend.layouts, problem, 2, 32, KvType::kBF16, 512);
      ASSERT_EQ(out.size(), expected.size());
      for (size_t i = 0; i < out.size(); ++i) {
        ASSERT_NEAR(out[i], expected[i], backend.rounds ? 2e-2f : 1e-4f)
            << backend.name << ", heads of " << heads.head_dim;
      }
    }
  }
}

TEST(IntelAmx, AgreesWithTorchNativeOverLongContexts) {
  for (std::int32_t window : {0, 300}) {
    const Problem problem = random_problem({700, 1, 513, 64, 255}, {1, 1, 40, 64, 1}, window);
    const auto expected =
        run(make_torch_native, torch_native_layouts, problem, 2, 16, KvType::kBF16, 512);
    for (const Backend& backend : tiled_backends()) {
      for (std::int64_t page_size : {16, 32, 128}) {
        const auto out =
            run(backend.make, backend.layouts, problem, 2, page_size, KvType::kBF16, 512);
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_NEAR(out[i], expected[i], backend.rounds ? 2e-2f : 1e-4f) << backend.name;
        }
      }
    }
  }
}

// The same token gives the same bits whatever is in the batch, whether it is prefilled or decoded,
// in any chunks, with any page size and number of threads.
TEST(Tiled, ATokensBitsDependOnItsSequenceOnly) {
  for (const Backend& backend : tiled_backends()) {
    for (std::int32_t window : {0, 100}) {
      const Problem whole = random_problem({600, 77}, {600, 77}, window);
      const auto expected = run(backend.make, backend.layouts, whole, 1, 16, KvType::kBF16, 600);
      const size_t row = 9 * 24;
      for (std::int32_t queries : {1, 2, 16, 33, 600}) {
        for (int threads : {1, 2, 3}) {
          Problem tail = whole;
          tail.kv_lens = {600};
          tail.q_lens = {queries};
          tail.q.assign(whole.q.begin() + (600 - queries) * 9 * 40, whole.q.begin() + 600 * 9 * 40);
          const auto out = run(backend.make, backend.layouts, tail, threads, queries % 2 ? 16 : 64,
                               KvType::kBF16, 5 * threads);
          EXPECT_EQ(0,
                    std::memcmp(out.data(), &expected[(600 - static_cast<size_t>(queries)) * row],
                                out.size() * 4))
              << backend.name << ", " << queries << " queries, " << threads << " threads, window "
              << window;
        }
      }
    }
  }
}

}  // namespace
}  // namespace quern::attention
