// From options to a model that can run: facts, checks, backend, cache, weights, in that order, so
// that whatever can be refused is refused before a weight is read.
#pragma once

#include <memory>

#include "attention/assemble.h"
#include "base/threads.h"
#include "cache/kv_store.h"
#include "cache/page_pool.h"
#include "checkpoint/checkpoint.h"
#include "engine/answer_formats.h"
#include "model/model.h"
#include "quern/engine.h"
#include "text/chat_template.h"
#include "text/tokenizer.h"

namespace quern::engine {

// Rows of logits that one step may compute of prompts, whose log-probabilities were asked for.
inline constexpr std::int64_t kMaxPromptRows = 128;

// A loaded model and everything a step needs. Later members use earlier ones.
struct LoadedModel {
  EngineInfo info;
  ModelConfig config;
  std::unique_ptr<ThreadPool> pool;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<text::ChatTemplate> chat_template;
  std::unique_ptr<AnswerFormats> formats;
  std::unique_ptr<attention::AttentionBackend> backend;
  std::unique_ptr<cache::KvStore> store;
  std::unique_ptr<cache::PagePool> pages;
  std::unique_ptr<checkpoint::Weights> weights;  // null where the model has packed all of them
  std::unique_ptr<model::Model> model;
  std::int64_t max_batch_tokens = 0;
  std::int64_t max_rows = 0;  // of logits in one batch
};

// Throws: Error of every layer below; see docs/architecture.md for the order.
LoadedModel load_model(const EngineOptions& options);

}  // namespace quern::engine
