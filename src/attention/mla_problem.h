// For tests of latent attention: a problem, and how any backend runs it.
#pragma once

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <vector>

#include "attention/backend.h"

namespace quern::attention {

struct MlaProblem {
  MlaLayer layer;
  std::vector<std::int32_t> kv_lens, q_lens;
  std::vector<float> rows;        // of all tokens of all sequences, [Σ kv_len, row_dim]
  std::vector<float> q_absorbed;  // [Σ q_len, heads, row_dim]
  std::vector<float> q;           // [Σ q_len, heads, qk_dim]
  std::vector<float> up;          // [latent_dim, heads, nope_dim + v_head_dim]

  ExpandLatents expand = [this](const float* latents, std::int64_t n) {
    return product(latents, n);
  };

  MlaProblem() = default;
  MlaProblem(const MlaProblem&) = delete;

 private:
  ExpandedLatents product(const float* latents, std::int64_t n) {
    const std::int64_t width = std::int64_t{layer.heads} * (layer.nope_dim + layer.v_head_dim);
    expanded_.assign(static_cast<size_t>(n * width), 0.0f);
    for (std::int64_t t = 0; t < n; ++t) {
      float* out = expanded_.data() + t * width;
      for (std::int64_t i = 0; i < layer.latent_dim; ++i) {
        const float x = latents[t * layer.latent_dim + i];
        const float* from = up.data() + i * width;
        for (std::int64_t o = 0; o < width; ++o) out[o] += x * from[o];
      }
    }
    const std::int64_t head = layer.nope_dim + layer.v_head_dim;
    return {expanded_.data(), expanded_.data() + layer.nope_dim, width, head, width, head};
  }
  std::vector<float> expanded_;
};

// Values of bf16, so that caches of bf16 and f32 hold the same.
inline std::vector<float> bf16_normals(std::int64_t count, std::mt19937& random,
                                       float deviation = 1.0f) {
  std::normal_distribution<float> normal(0.0f, deviation);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = f32_from_bf16(bf16_from_f32(normal(random)));
  return values;
}

// q_absorbed of the problem's q: through the up-projection of the keys.
inline void absorb(MlaProblem& problem) {
  const MlaLayer& layer = problem.layer;
  const std::int64_t width = layer.nope_dim + layer.v_head_dim;
  const std::int64_t count = static_cast<std::int64_t>(problem.q.size()) / layer.qk_dim();
  problem.q_absorbed.resize(static_cast<size_t>(count * layer.row_dim()));
  for (std::int64_t r = 0; r < count; ++r) {
    const float* q = problem.q.data() + r * layer.qk_dim();
    float* out = problem.q_absorbed.data() + r * layer.row_dim();
    for (std::int64_t i = 0; i < layer.latent_dim; ++i) {
      const float* up = problem.up.data() + (i * layer.heads + r % layer.heads) * width;
      out[i] = 0;
      for (std::int64_t d = 0; d < layer.nope_dim; ++d) out[i] += q[d] * up[d];
    }
    std::copy_n(q + layer.nope_dim, layer.rope_dim, out + layer.latent_dim);
  }
}

inline void fill_random(MlaProblem& problem, const MlaLayer& layer,
                        std::vector<std::int32_t> kv_lens, std::vector<std::int32_t> q_lens) {
  std::mt19937 random(7);
  std::int64_t tokens = 0, queries = 0;
  for (const std::int32_t n : kv_lens) tokens += n;
  for (const std::int32_t n : q_lens) queries += n;
  problem.layer = layer;
  problem.kv_lens = std::move(kv_lens);
  problem.q_lens = std::move(q_lens);
  problem.rows = bf16_normals(tokens * layer.row_dim(), random);
  problem.q = bf16_normals(queries * layer.heads * layer.qk_dim(), random);
  problem.up = bf16_normals(
      std::int64_t{layer.latent_dim} * layer.heads * (layer.nope_dim + layer.v_head_dim), random,
      1.0f / std::sqrt(static_cast<float>(layer.latent_dim)));
  absorb(problem);
}

struct MlaResult {
  std::vector<float>
      out_latent;          // [Σ q_len, heads, latent_dim]; zero where a sequence ran expanded
  std::vector<float> out;  // [Σ q_len, heads, v_head_dim], of both ways
  std::vector<float> lse;  // [Σ q_len, heads]
};

struct MlaRun {
  cache::KvLayout layout;
  int threads = 2;
  std::int32_t chunk = 512;  // tokens of a pass that stores what comes before the queries
};

// Values of absorbed sequences through the up-projection, so that both ways can be compared.
inline void project_values(const MlaProblem& problem, const Batch& batch, MlaResult& result) {
  const MlaLayer& layer = problem.layer;
  const std::int64_t width = layer.nope_dim + layer.v_head_dim;
  for (const SequenceSlice& sequence : batch.sequences) {
    if (runs_expanded(layer, sequence) || problem.up.empty()) continue;
    const std::int64_t begin = std::int64_t{sequence.query_begin} * layer.heads;
    for (std::int64_t r = begin; r < begin + std::int64_t{sequence.query_len} * layer.heads; ++r) {
      float* out = result.out.data() + r * layer.v_head_dim;
      for (std::int64_t i = 0; i < layer.latent_dim; ++i) {
        const float x = result.out_latent[static_cast<size_t>(r * layer.latent_dim + i)];
        const float* up =
            problem.up.data() + (i * layer.heads + r % layer.heads) * width + layer.nope_dim;
        for (std::int64_t d = 0; d < layer.v_head_dim; ++d) out[d] += x * up[d];
      }
    }
  }
}

// Stores what comes before the queries in passes of at most `chunk` tokens, then runs the queries
// of all sequences as one batch.
inline MlaResult run_mla(AttentionBackend& backend, const MlaProblem& problem, const MlaRun& how) {
  const MlaLayer& layer = problem.layer;
  const size_t n = problem.kv_lens.size();
  std::vector<std::vector<std::int32_t>> pages(n);
  std::int32_t page = 0;
  for (size_t s = 0; s < n; ++s) {
    for (std::int32_t t = 0; t < problem.kv_lens[s]; t += how.layout.page_size) {
      pages[s].push_back(page++);
    }
    std::reverse(pages[s].begin(), pages[s].end());  // order must not matter
  }
  cache::KvStore store(how.layout, layer.layer + 1, page);
  const auto heads = static_cast<size_t>(layer.heads);
  const auto run = [&](const Batch& batch, const float* rows, const float* q_absorbed,
                       const float* q) {
    const size_t tokens = batch.token_ids.size() * heads;
    MlaResult result{std::vector<float>(tokens * static_cast<size_t>(layer.latent_dim)),
                     std::vector<float>(tokens * static_cast<size_t>(layer.v_head_dim)),
                     std::vector<float>(tokens)};
    backend.plan(batch);
    backend.forward_mla(layer,
                        {rows, q_absorbed, q, &problem.expand, result.out_latent.data(),
                         result.out.data(), result.lse.data()},
                        store);
    return result;
  };
  std::int64_t first = 0;
  Batch batch;
  std::vector<float> rows;
  for (size_t s = 0; s < n; ++s) {
    const std::int32_t prefix = problem.kv_lens[s] - problem.q_lens[s];
    for (std::int32_t begin = 0; begin < prefix; begin += how.chunk) {
      const std::int32_t count = std::min(how.chunk, prefix - begin);
      Batch part;
      part.token_ids.resize(static_cast<size_t>(count));
      part.sequences = {{0, count, begin + count, pages[s]}};
      const std::vector<float> zeros(
          static_cast<size_t>(count) * heads *
          static_cast<size_t>(std::max(layer.row_dim(), layer.qk_dim())));
      run(part, problem.rows.data() + (first + begin) * layer.row_dim(), zeros.data(),
          zeros.data());
    }
    first += problem.kv_lens[s];
    batch.sequences.push_back({static_cast<std::int32_t>(batch.token_ids.size()), problem.q_lens[s],
                               problem.kv_lens[s], pages[s]});
    batch.token_ids.resize(batch.token_ids.size() + static_cast<size_t>(problem.q_lens[s]));
    rows.insert(rows.end(), problem.rows.begin() + (first - problem.q_lens[s]) * layer.row_dim(),
                problem.rows.begin() + first * layer.row_dim());
  }
  MlaResult result = run(batch, rows.data(), problem.q_absorbed.data(), problem.q.data());
  project_values(problem, batch, result);
  return result;
}

}  // namespace quern::attention
