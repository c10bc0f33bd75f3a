// Latent attention of the CPU backends: against the reference cases, each way against the other,
// and the promise of equal bits where only one way is allowed.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

#include "attention/backends/cpu_flash.h"
#include "attention/backends/intel_amx.h"
#include "attention/backends/torch_native.h"
#include "attention/mla_problem.h"
#include "kernels/ops.h"
#include "kernels/test_safetensors.h"

#if defined(QUERN_HAS_SIMDE)
namespace quern::kernels {
void attend_bf16_amx_emulated(const AttendArgs& args, int rows);
}
#endif

namespace quern::attention {
namespace {

#if defined(QUERN_HAS_SIMDE)
std::unique_ptr<AttentionBackend> make_emulated_amx(ThreadPool& pool) {
  return make_tiled(pool, kIntelAmxInfo, kernels::attend_bf16_amx_emulated, kernels::kTileRows);
}
#endif

struct Backend {
  const char* name;
  std::unique_ptr<AttentionBackend> (*make)(ThreadPool&);
  LayoutList (*layouts)(const Needs&);
  bool rounds;  // queries and probabilities to bf16, over bf16 and fp8 rows
  bool packs;   // expanded keys and values to bf16, over the same
  bool keeps_f32 = true;
};

// The last is cpu_flash.
std::vector<Backend> all_backends() {
  const bool avx512 = kernels::ops().isa == kernels::Isa::kAvx512;
  return {
    {"torch_native", make_torch_native, torch_native_layouts, false, false},
#if defined(QUERN_HAS_SIMDE)
        {"intel_amx, emulated", make_emulated_amx, cpu_flash_layouts, true, true, false},
#endif
    {
      "cpu_flash", make_cpu_flash, cpu_flash_layouts, avx512, true
    }
  };
}

cache::KvLayout layout_of(const Backend& backend, const MlaLayer& layer, KvType type,
                          std::int64_t page_size) {
  Needs needs;
  needs.mla = true;
  needs.heads = layer.heads;
  needs.head_dim = layer.row_dim();
  needs.v_head_dim = layer.latent_dim;
  needs.page_size = page_size;
  needs.kv_type = type;
  return backend.layouts(needs).at(0);
}

MlaResult run(const Backend& backend, const MlaProblem& problem, KvType type,
              std::int64_t page_size, int threads = 2, std::int32_t chunk = 512) {
  ThreadPool pool(threads);
  const auto made = backend.make(pool);
  return run_mla(*made, problem,
                 {layout_of(backend, problem.layer, type, page_size), threads, chunk});
}

void expect_near(const std::vector<float>& values, const std::vector<float>& expected,
                 float tolerance, const std::string& what) {
  ASSERT_EQ(values.size(), expected.size()) << what;
  for (size_t i = 0; i < values.size(); ++i) {
    ASSERT_NEAR(values[i], expected[i], tolerance) << what << " at " << i;
  }
}

// [rows, a] and [rows, b] side by side.
std::vector<float> beside(const std::vector<float>& left, size_t a, const std::vector<float>& right,
                          size_t b) {
  std::vector<float> both;
  for (size_t r = 0; r < left.size() / a; ++r) {
    both.insert(both.end(), left.begin() + static_cast<std::ptrdiff_t>(r * a),
                left.begin() + static_cast<std::ptrdiff_t>((r + 1) * a));
    both.insert(both.end(), right.begin() + static_cast<std::ptrdiff_t>(r * b),
                right.begin() + static_cast<std::ptrdiff_t>((r + 1) * b));
  }
  return both;
}

std::vector<float> cached_rows(const GoldenArrays& golden, const std::string& cache,
                               std::int64_t page_size, std::int64_t dim) {
  const auto kv_lens = golden.as<std::int32_t>("kv_lens");
  const auto table = golden.as<std::int32_t>("page_table");
  const auto all = golden.floats(cache);
  const std::int64_t width = golden.shape("page_table")[1];
  std::vector<float> rows;
  for (size_t s = 0; s < kv_lens.size(); ++s) {
    for (std::int64_t t = 0; t < kv_lens[s]; ++t) {
      const auto entry = static_cast<std::int64_t>(s) * width + t / page_size;
      const std::int64_t slot = table[static_cast<size_t>(entry)] * page_size + t % page_size;
      rows.insert(rows.end(), all.begin() + slot * dim, all.begin() + (slot + 1) * dim);
    }
  }
  return rows;
}

// All tokens become queries and each sequence gets more of them behind, all zeros, which what
// stands before does not see: so many that the cost rule takes the expanded way.
constexpr std::int32_t kMore = 200;
void query_all(MlaProblem& problem) {
  const auto spread = [&](std::vector<float>& from, const std::vector<std::int32_t>& lens,
                          std::int64_t row) {
    std::vector<float> all;
    std::int64_t first = 0;
    for (size_t s = 0; s < lens.size(); ++s) {
      all.resize(all.size() + static_cast<size_t>((problem.kv_lens[s] - lens[s]) * row));
      all.insert(all.end(), from.begin() + first * row, from.begin() + (first + lens[s]) * row);
      all.resize(all.size() + static_cast<size_t>(kMore * row));
      first += lens[s];
    }
    from = all;
  };
  const MlaLayer& layer = problem.layer;
  spread(problem.q, problem.q_lens, layer.heads * layer.qk_dim());
  spread(problem.rows, problem.kv_lens, layer.row_dim());
  for (std::int32_t& len : problem.kv_lens) len += kMore;
  problem.q_lens = problem.kv_lens;
}

// The rows of the case's queries, of a result for all tokens.
std::vector<float> asked_rows(const std::vector<float>& all, const GoldenArrays& golden,
                              std::int64_t row) {
  const auto kv_lens = golden.as<std::int32_t>("kv_lens"),
             q_lens = golden.as<std::int32_t>("q_lens");
  std::vector<float> asked;
  std::int64_t end = 0;
  for (size_t s = 0; s < kv_lens.size(); ++s) {
    end += kv_lens[s];
    asked.insert(asked.end(), all.begin() + (end - q_lens[s]) * row, all.begin() + end * row);
    end += kMore;
  }
  return asked;
}

class Cases : public testing::Test {
 protected:
  Cases() : cases_(nlohmann::json::parse(std::ifstream(folder_ + "cases.json")).at("cases")) {}
  GoldenArrays golden(const std::string& name) const {
    return GoldenArrays(folder_ + std::string(cases_.at(name).at("file")));
  }
  const std::string folder_ = QUERN_TEST_DATA "/attention/";
  const nlohmann::json cases_;
};

TEST_F(Cases, BothWaysGiveTheReferencesResult) {
  for (const std::string name : {"mla_decode", "mla_extend"}) {
    const auto& c = cases_.at(name);
    const GoldenArrays arrays = golden(name);
    for (const bool expanded : {false, true}) {
      MlaProblem problem;
      MlaLayer& layer = problem.layer;
      layer = {.layer = 1,
               .heads = c.at("heads"),
               .latent_dim = c.at("kv_lora_rank"),
               .rope_dim = c.at("qk_rope"),
               .nope_dim = c.at("qk_nope"),
               .v_head_dim = c.at("v_head_dim"),
               .scale = c.at("scale"),
               .only_absorbed = !expanded};
      problem.kv_lens = arrays.as<std::int32_t>("kv_lens");
      problem.q_lens = arrays.as<std::int32_t>("q_lens");
      problem.rows = cached_rows(arrays, "latent_cache", c.at("page_size"), layer.row_dim());
      const auto rope = static_cast<size_t>(layer.rope_dim);
      problem.q = beside(arrays.floats("q_nope"), static_cast<size_t>(layer.nope_dim),
                         arrays.floats("q_rope"), rope);
      problem.q_absorbed = beside(arrays.floats("q_latent"), static_cast<size_t>(layer.latent_dim),
                                  arrays.floats("q_rope"), rope);
      const auto w_k = arrays.floats("w_k"), w_v = arrays.floats("w_v");
      const auto put = [&](const std::vector<float>& w, std::int64_t dim, std::int64_t offset) {
        const std::int64_t width = layer.nope_dim + layer.v_head_dim;
        problem.up.resize(static_cast<size_t>(layer.latent_dim * layer.heads * width));
        for (std::int64_t i = 0; i < static_cast<std::int64_t>(w.size()); ++i) {
          const std::int64_t head = i / layer.latent_dim / dim, d = i / layer.latent_dim % dim;
          const std::int64_t to = (i % layer.latent_dim * layer.heads + head) * width + offset + d;
          problem.up[static_cast<size_t>(to)] = w[static_cast<size_t>(i)];
        }
      };
      put(w_k, layer.nope_dim, 0);
      put(w_v, layer.v_head_dim, layer.nope_dim);
      if (expanded) query_all(problem);
      ASSERT_EQ(expanded, runs_expanded(layer, {0, 1 + kMore, 1 + kMore, {}}));
      for (const Backend& backend : all_backends()) {
        for (const KvType type : {KvType::kF32, KvType::kBF16}) {
          if (type == KvType::kF32 && !backend.keeps_f32) continue;
          const MlaResult result = run(backend, problem, type, 16);
          const auto own = [&](const std::vector<float>& all, std::int64_t dim) {
            return expanded ? asked_rows(all, arrays, layer.heads * dim) : all;
          };
          const bool rounds = type == KvType::kBF16 && (expanded ? backend.packs : backend.rounds);
          const float tolerance = rounds ? 2e-2f : 2e-5f;
          const std::string what = name + (expanded ? " expanded " : " absorbed ") + backend.name;
          expect_near(own(result.out, layer.v_head_dim), arrays.floats("out"), tolerance, what);
          expect_near(own(result.lse, 1), arrays.floats("lse"), tolerance, what + " lse");
          if (expanded) continue;
          expect_near(result.out_latent, arrays.floats("out_latent"), tolerance, what + " latent");
        }
      }
    }
  }
}

TEST_F(Cases, AbsorbedAtTheRealDims) {
  for (const std::string name : {"mla_decode_deepseek", "mla_verify_deepseek"}) {
    const auto& c = cases_.at(name);
    const GoldenArrays arrays = golden(name);
    MlaProblem problem;
    problem.layer = {.heads = c.at("heads"),
                     .latent_dim = c.at("kv_lora_rank"),
                     .rope_dim = c.at("qk_rope"),
                     .nope_dim = 128,
                     .v_head_dim = 128,
                     .scale = c.at("scale"),
                     .only_absorbed = true};
    problem.kv_lens = arrays.as<std::int32_t>("kv_lens");
    problem.q_lens = arrays.as<std::int32_t>("q_lens");
    problem.rows = cached_rows(arrays, "latent_cache", c.at("page_size"), 576);
    problem.q_absorbed = arrays.floats("q");
    for (const Backend& backend : all_backends()) {
      for (const KvType type : {KvType::kF32, KvType::kBF16}) {
        if (type == KvType::kF32 && !backend.keeps_f32) continue;
        for (const std::int64_t page_size : {1, 16, 64}) {
          const MlaResult result = run(backend, problem, type, page_size, 2, 7);
          const bool rounds = type == KvType::kBF16 && backend.rounds;
          expect_near(result.out_latent, arrays.floats("out_latent"), rounds ? 1e-2f : 2e-5f,
                      name + " " + backend.name);
          expect_near(result.lse, arrays.floats("lse"), rounds ? 4e-3f : 1e-5f, name + " lse");
        }
      }
    }
  }
}

// The case gives keys and values as they come out of the matrices: the latent row holds the
// token's number alone, and expanding it looks them up.
TEST_F(Cases, ExpandedAtTheRealDims) {
  const auto& c = cases_.at("mla_expanded_deepseek");
  const GoldenArrays arrays = golden("mla_expanded_deepseek");
  MlaProblem problem;
  MlaLayer& layer = problem.layer;
  layer = {.heads = c.at("heads"),
           .latent_dim = 512,
           .nope_dim = c.at("head_dim"),
           .v_head_dim = c.at("v_head_dim"),
           .scale = c.at("scale")};
  problem.kv_lens = arrays.as<std::int32_t>("kv_lens");
  problem.q_lens = arrays.as<std::int32_t>("q_lens");
  auto keys = cached_rows(arrays, "k_cache", c.at("page_size"), layer.heads * layer.nope_dim);
  auto values = cached_rows(arrays, "v_cache", c.at("page_size"), layer.heads * layer.v_head_dim);
  problem.rows.resize(static_cast<size_t>(problem.kv_lens[0] * layer.latent_dim));
  problem.q = arrays.floats("q");
  keys.resize(keys.size() + static_cast<size_t>(kMore * layer.heads * layer.nope_dim));
  values.resize(values.size() + static_cast<size_t>(kMore * layer.heads * layer.v_head_dim));
  query_all(problem);
  for (std::int32_t t = 0; t < problem.kv_lens[0]; ++t) {
    problem.rows[static_cast<size_t>(t * layer.latent_dim)] = static_cast<float>(t);
  }
  problem.expand = [&](const float* latents, std::int64_t n) -> ExpandedLatents {
    EXPECT_LE(n, kExpandRows);
    for (std::int64_t t = 0; t < n; ++t) {
      EXPECT_EQ(latents[t * layer.latent_dim], latents[0] + static_cast<float>(t));
    }
    const auto first = static_cast<std::int64_t>(latents[0]);
    const std::int64_t key = layer.heads * layer.nope_dim, value = layer.heads * layer.v_head_dim;
    return {keys.data() + first * key, values.data() + first * value, key, layer.nope_dim, value,
            layer.v_head_dim};
  };
  for (const Backend& backend : all_backends()) {
    for (const KvType type : {KvType::kF32, KvType::kBF16}) {
      if (type == KvType::kF32 && !backend.keeps_f32) continue;
      const MlaResult result = run(backend, problem, type, 16);
      const float tolerance = type == KvType::kBF16 && backend.packs ? 1e-2f : 2e-5f;
      expect_near(asked_rows(result.out, arrays, layer.heads * layer.v_head_dim),
                  arrays.floats("out"), tolerance, backend.name);
      expect_near(asked_rows(result.lse, arrays, layer.heads), arrays.floats("lse"), tolerance / 4,
                  backend.name);
    }
  }
}

constexpr MlaLayer kSmall = {.layer = 1,
                             .heads = 5,
                             .latent_dim = 48,
                             .rope_dim = 16,
                             .nope_dim = 24,
                             .v_head_dim = 40,
                             .scale = 0.16f};

// The last sequence runs expanded, after a prefix that is longer than a chunk.
TEST(CpuFlashMla, AgreesWithTorchNativeInMixedBatches) {
  MlaProblem problem;
  fill_random(problem, kSmall, {1300, 1, 513, 64, 1100}, {1, 1, 5, 64, 480});
  ASSERT_TRUE(runs_expanded(kSmall, {0, 480, 1100, {}}));
  ASSERT_FALSE(runs_expanded(kSmall, {0, 5, 513, {}}));
  const std::vector<Backend> backends = all_backends();
  for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kFp8E4M3}) {
    const MlaResult expected = run(backends.front(), problem, type, 16);
    for (const Backend& backend : backends) {
      if (type == KvType::kF32 && !backend.keeps_f32) continue;
      const bool only_some = &backend != &backends.back();
      for (const std::int64_t page_size : {64, 1, 16, 32, 128}) {
        if (only_some && page_size != 64) continue;  // emulation and plain loops are slow
        const MlaResult result = run(backend, problem, type, page_size, 3, 300);
        const bool rounds = backend.packs && type != KvType::kF32;
        const std::string what = std::string(backend.name) + " " + std::string(name_of(type));
        expect_near(result.out, expected.out, rounds ? 3e-2f : 1e-4f, what);
        expect_near(result.lse, expected.lse, rounds ? 2e-2f : 1e-4f, what + " lse");
      }
    }
  }
}

TEST(CpuFlashMla, BothWaysAgreeAtTheRealDims) {
  MlaLayer layer = {.heads = 3,
                    .latent_dim = 512,
                    .rope_dim = 64,
                    .nope_dim = 128,
                    .v_head_dim = 128,
                    .scale = 0.0721688f};
  for (const Backend& backend : all_backends()) {
    MlaProblem problem;
    fill_random(problem, layer, {600, 190}, {400, 190});
    const MlaResult expanded = run(backend, problem, KvType::kBF16, 64);
    problem.layer.only_absorbed = true;
    const MlaResult absorbed = run(backend, problem, KvType::kBF16, 64);
    expect_near(absorbed.out, expanded.out, backend.packs ? 2e-2f : 1e-4f, backend.name);
    expect_near(absorbed.lse, expanded.lse, backend.packs ? 2e-2f : 1e-4f, backend.name);
  }
}

// More heads than one item takes, and than whole groups of lanes.
TEST(CpuFlashMla, ManyHeadsAgreeWithTorchNative) {
  const MlaLayer layer = {.heads = 150,
                          .latent_dim = 33,
                          .rope_dim = 8,
                          .nope_dim = 6,
                          .v_head_dim = 10,
                          .scale = 0.3f,
                          .only_absorbed = true};
  MlaProblem problem;
  fill_random(problem, layer, {300, 9}, {3, 1});
  const std::vector<Backend> backends = all_backends();
  for (const KvType type : {KvType::kF32, KvType::kBF16, KvType::kFp8E4M3}) {
    const MlaResult expected = run(backends.front(), problem, type, 16);
    const MlaResult result = run(backends.back(), problem, type, 32, 2, 50);
    const bool rounds = backends.back().rounds && type != KvType::kF32;
    expect_near(result.out_latent, expected.out_latent, rounds ? 3e-2f : 1e-4f,
                std::string(name_of(type)));
    expect_near(result.lse, expected.lse, rounds ? 3e-2f : 1e-4f, "lse");
  }
}

// With --enable-deterministic-inference: the same token gives the same bits whatever is in the
// batch, whether it is prefilled or decoded, in any chunks, with any page size and threads.
TEST(CpuFlashMla, ATokensBitsDependOnItsSequenceOnlyWhereOneWayIsAllowed) {
  MlaLayer layer = kSmall;
  layer.only_absorbed = true;
  const Backend backend = all_backends().back();
  for (const KvType type : {KvType::kBF16, KvType::kF32, KvType::kFp8E4M3}) {
    MlaProblem whole;
    fill_random(whole, layer, {1200, 77}, {1200, 77});
    const MlaResult expected = run(backend, whole, type, 16, 1, 1200);
    const auto row = static_cast<size_t>(layer.heads * layer.latent_dim);
    for (const std::int32_t queries : {1, 2, 16, 33, 1200}) {
      for (const int threads : {1, 2, 3}) {
        MlaProblem tail;
        tail.layer = layer;
        tail.kv_lens = {1200};
        tail.q_lens = {queries};
        tail.rows.assign(whole.rows.begin(), whole.rows.begin() + 1200 * layer.row_dim());
        const auto cut = [&](const std::vector<float>& all, std::int64_t dim) {
          const std::int64_t width = layer.heads * dim;
          return std::vector<float>(all.begin() + (1200 - queries) * width,
                                    all.begin() + 1200 * width);
        };
        tail.q = cut(whole.q, layer.qk_dim());
        tail.q_absorbed = cut(whole.q_absorbed, layer.row_dim());
        const MlaResult result =
            run(backend, tail, type, std::array{1, 64, 128}[threads - 1], threads, 5 * threads);
        const size_t first = 1200 - static_cast<size_t>(queries);
        EXPECT_EQ(0, std::memcmp(result.out_latent.data(), &expected.out_latent[first * row],
                                 result.out_latent.size() * 4))
            << name_of(type) << ", " << queries << " queries, " << threads << " threads";
        EXPECT_EQ(0,
                  std::memcmp(result.lse.data(), &expected.lse[first * 5], result.lse.size() * 4));
      }
    }
  }
}

// Expanded, a sequence's own bits still do not depend on pages, threads or the rest of the batch.
TEST(CpuFlashMla, ExpandedBitsDependOnTheChunkAloneOfAllCircumstances) {
  const Backend backend = all_backends().back();
  MlaProblem alone, among;
  fill_random(alone, kSmall, {900}, {700});
  fill_random(among, kSmall, {900, 40, 33}, {700, 1, 33});
  std::copy(alone.rows.begin(), alone.rows.end(), among.rows.begin());
  std::copy(alone.q.begin(), alone.q.end(), among.q.begin());
  among.up = alone.up;
  absorb(among);
  const MlaResult expected = run(backend, alone, KvType::kBF16, 16, 1);
  for (const int threads : {1, 2, 3}) {
    const MlaResult result = run(backend, among, KvType::kBF16, threads == 1 ? 1 : 64, threads, 90);
    EXPECT_EQ(0, std::memcmp(result.out.data(), expected.out.data(), expected.out.size() * 4));
  }
}

}  // namespace
}  // namespace quern::attention
