// Runs a model without the engine, for golden tests: one sequence at a time, logits on demand.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "attention/select.h"
#include "cache/kv_store.h"
#include "checkpoint/checkpoint.h"
#include "model/model.h"

namespace quern::model {

struct RunOptions {
  int threads = 2;
  std::int64_t page_size = 0;                     // 0: the backend's choice
  std::function<void(ModelConfig&)> change = {};  // of what the file says
  bool deterministic = false;
  bool repack = true;
};

class TestRunner {
 public:
  TestRunner(const std::string& path, const std::string& backend, kernels::PackMode pack,
             attention::KvType kv, const RunOptions& run = {})
      : pool_(run.threads), metadata_(checkpoint::read_metadata(path)) {
    if (run.change) run.change(metadata_.config);
    const Family& family = find_family(metadata_.config);
    family.check(metadata_.config);
    weights_ = checkpoint::open_weights(metadata_);
    LoadOptions options;
    options.pack = pack;
    options.repack = run.repack;
    options.max_tokens = kMaxTokens;
    options.max_rows = kMaxTokens;
    options.deterministic = run.deterministic;
    model_ = family.load(metadata_, *weights_, pool_, options);
    attention::NeedsOptions asked;
    asked.kv_type = kv;
    asked.page_size = run.page_size;
    const auto needs = attention::needs_of(metadata_.config, path, asked);
    const attention::BackendRow& row = attention::find_backend(backend);
    backend_ = row.create(pool_);
    const auto layout = row.kv_layouts(needs).at(0);
    for (std::int32_t page = 0; page < kPages; ++page) pages_.push_back(kPages - 1 - page);
    store_ = std::make_unique<cache::KvStore>(layout, metadata_.config.layers, kPages);
  }

  std::int64_t vocab() const { return model_->vocab(); }

  // A step of tokens after the `cached` ones, all of whose logits are wanted.
  Batch batch_of(std::span<const std::int32_t> ids, std::int32_t cached) const {
    Batch batch;
    const auto count = static_cast<std::int32_t>(ids.size());
    for (std::int32_t i = 0; i < count; ++i) {
      batch.token_ids.push_back(ids[static_cast<size_t>(i)]);
      batch.positions.push_back(cached + i);
      batch.logit_rows.push_back(i);
    }
    batch.sequences = {{0, count, cached + count, pages_}};
    return batch;
  }
  void forward(const Batch& batch, std::span<float> logits) {
    model_->forward(batch, *backend_, *store_, logits.data());
  }

  // Appends tokens after the `cached` ones already stored; logits of all of them [n, vocab].
  std::vector<float> append(std::span<const std::int32_t> ids, std::int32_t cached,
                            std::int32_t chunk = kMaxTokens) {
    std::vector<float> logits;
    for (size_t begin = 0; begin < ids.size(); begin += static_cast<size_t>(chunk)) {
      const auto count = std::min(ids.size() - begin, static_cast<size_t>(chunk));
      const Batch batch =
          batch_of(ids.subspan(begin, count), cached + static_cast<std::int32_t>(begin));
      std::vector<float> part(count * static_cast<size_t>(vocab()));
      forward(batch, part);
      logits.insert(logits.end(), part.begin(), part.end());
    }
    return logits;
  }

  // One batch of parts of the same text, each a sequence of its own: `cached` tokens before it and
  // then `count` new ones, whose logits come back.
  using Cut = std::pair<std::int32_t, std::int32_t>;
  std::vector<float> append_mixed(std::span<const std::int32_t> ids, std::span<const Cut> cuts) {
    const std::span<const std::int32_t> pages = pages_;
    const size_t share = pages.size() / cuts.size();
    Batch batch;
    for (size_t s = 0; s < cuts.size(); ++s) {
      const auto [cached, count] = cuts[s];
      const auto own = pages.subspan(s * share, share);
      if (cached > 0) {
        Batch before = batch_of(ids.first(static_cast<size_t>(cached)), 0);
        before.sequences[0].pages = own;
        std::vector<float> unused(before.token_ids.size() * static_cast<size_t>(vocab()));
        forward(before, unused);
      }
      const auto begin = static_cast<std::int32_t>(batch.tokens());
      for (std::int32_t i = 0; i < count; ++i) {
        batch.token_ids.push_back(ids[static_cast<size_t>(cached + i)]);
        batch.positions.push_back(cached + i);
        batch.logit_rows.push_back(begin + i);
      }
      batch.sequences.push_back({begin, count, cached + count, own});
    }
    std::vector<float> logits(batch.token_ids.size() * static_cast<size_t>(vocab()));
    forward(batch, logits);
    return logits;
  }
  // The same rows out of the logits of the whole text.
  static std::vector<float> rows_of(const std::vector<float>& all, std::span<const Cut> cuts,
                                    std::int64_t vocab) {
    std::vector<float> rows;
    for (const auto& [cached, count] : cuts) {
      rows.insert(rows.end(), all.begin() + cached * vocab, all.begin() + (cached + count) * vocab);
    }
    return rows;
  }

 private:
  static constexpr std::int32_t kMaxTokens = 256, kPages = 64;
  ThreadPool pool_;
  checkpoint::Metadata metadata_;
  std::unique_ptr<checkpoint::Weights> weights_;
  std::unique_ptr<Model> model_;
  std::unique_ptr<attention::AttentionBackend> backend_;
  std::vector<std::int32_t> pages_;
  std::unique_ptr<cache::KvStore> store_;
};

}  // namespace quern::model
