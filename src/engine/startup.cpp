#include "engine/startup.h"

#include <malloc.h>

#include <algorithm>
#include <chrono>

#include "base/cpu_features.h"
#include "base/error.h"
#include "base/errors/base.h"
#include "base/errors/engine.h"
#include "base/log.h"
#include "engine/chat_templates.h"
#include "engine/grammars.h"
#include "engine/memory_estimate.h"
#include "engine/question.h"
#include "engine/scheduling.h"
#include "kernels/ops.h"

namespace quern::engine {
namespace {

constexpr std::int64_t kDefaultMaxRunning = 64;
constexpr std::int64_t kDefaultChunk = 512;
constexpr std::int64_t kDefaultMaxPrefill = 16384;
constexpr double kCacheShare = 0.4;  // of the memory left after the weights
constexpr std::int64_t kMaxPages = std::int64_t{1} << 30;

kernels::PackMode pack_mode(const std::string& dtype) {
  if (dtype == "auto") return kernels::PackMode::kKeep;
  const auto parsed = parse_float_dtype(dtype);
  if (parsed == DType::kF32) return kernels::PackMode::kF32;
  if (parsed == DType::kBF16) return kernels::PackMode::kBF16;
  throw Error(errors::kInvalidFlagValue,
              {{"flag", "--dtype"}, {"value", dtype}, {"allowed", "auto, bfloat16, float32"}});
}

std::int64_t context_length(const EngineOptions& options, const ModelConfig& config) {
  if (options.context_length > config.context_length) {
    throw Error(errors::kContextLengthTooLarge,
                {{"asked", options.context_length}, {"limit", config.context_length}});
  }
  return options.context_length > 0 ? options.context_length : config.context_length;
}

// Pages of the KV cache: what was asked, else as many as memory allows and requests can use.
std::int64_t cache_pages(const EngineOptions& options, const cache::KvLayout& layout,
                         const EngineInfo& info) {
  const auto pages_of = [&](std::int64_t tokens) {
    return (tokens + layout.page_size - 1) / layout.page_size;
  };
  std::int64_t pages;
  if (options.max_total_tokens > 0) {
    pages = pages_of(options.max_total_tokens);
  } else {
    const auto usable = static_cast<double>(usable_memory_bytes());
    const double free_bytes =
        usable - resident_bytes(static_cast<double>(info.weight_bytes), usable, options.no_repack);
    const auto tokens = static_cast<std::int64_t>(std::max(0.0, free_bytes * kCacheShare) /
                                                  static_cast<double>(info.kv_bytes_per_token));
    pages = std::min(tokens / layout.page_size,
                     info.max_running_requests * pages_of(info.context_length));
  }
  return std::clamp<std::int64_t>(pages, 2, kMaxPages);
}

SamplingParams default_sampling(const checkpoint::GenerationDefaults& defaults) {
  SamplingParams params;
  params.temperature = defaults.temperature.value_or(params.temperature);
  params.top_p = defaults.top_p.value_or(params.top_p);
  params.min_p = defaults.min_p.value_or(params.min_p);
  params.top_k = defaults.top_k.value_or(params.top_k);
  if (params.top_p == 0) params.temperature = 0, params.top_p = 1;  // only the likeliest: greedy
  return params;
}

int thread_count(int asked) {
  const int usable = usable_cpus();
  if (asked > usable) {
    log().warn("--threads {} is more than the {} processors this process may use", asked, usable);
  }
  return asked > 0 ? asked : usable;
}

// Tells of the choice: which backend, what the cache holds, what runs it.
EngineInfo describe(const EngineOptions& options, const checkpoint::Metadata& metadata) {
  EngineInfo info;
  info.model_path = options.model_path;
  info.served_model_name =
      options.served_model_name.empty() ? options.model_path : options.served_model_name;
  info.model_name = metadata.config.name;
  info.architecture = metadata.config.architecture;
  info.dtype = options.dtype;
  info.isa = kernels::ops().name;
  info.vocab = metadata.config.vocab;
  info.layers = metadata.config.layers;
  info.context_length = context_length(options, metadata.config);
  info.max_running_requests =
      options.max_running_requests > 0 ? options.max_running_requests : kDefaultMaxRunning;
  info.chunked_prefill_size =
      options.chunked_prefill_size > 0 ? options.chunked_prefill_size : kDefaultChunk;
  info.chunked_prefill_size = std::min(info.chunked_prefill_size, info.context_length);
  info.max_prefill_tokens =
      options.max_prefill_tokens > 0 ? options.max_prefill_tokens : kDefaultMaxPrefill;
  info.default_sampling = default_sampling(metadata.generation);
  return info;
}

// The machine whose backends are to be judged: this one, or one whose contracts run here.
attention::Hardware startup_hardware(const EngineOptions& options) {
  if (options.simulate_hardware.empty()) return attention::probe_hardware();
  attention::Hardware hardware =
      attention::hardware_named(options.simulate_hardware, "--simulate-hardware");
  hardware.simulated = true;
  log().warn("simulating {} ({}): the backends' rules and results are real, the speed is not",
             hardware.name, hardware.description);
  return hardware;
}

}  // namespace

LoadedModel load_model(const EngineOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const kernels::PackMode pack = pack_mode(options.dtype);
  needs_options(options);  // mistyped words first: they cost no I/O
  policy_of(options);
  check_grammar_options(options);
  const std::string reasoning = reasoning_format(options.reasoning_parser);
  if (options.tool_call_parser != "auto") tool_call_format(options.tool_call_parser, "", {});
  const attention::Hardware hardware = startup_hardware(options);

  checkpoint::Metadata metadata = checkpoint::read_metadata(options.model_path);
  const attention::Question question = question_of(options, metadata.config, hardware);
  LoadedModel loaded;
  std::string reason;
  const attention::Plan plan = attention::choose(question, asked_backends(options), &reason);
  for (const std::string& note : plan.notes) log().info("{}", note);
  const model::Family& family = model::find_family(metadata.config);
  family.check(metadata.config);
  checkpoint::require_weights(metadata);
  loaded.config = metadata.config;
  loaded.info = describe(options, metadata);
  EngineInfo& info = loaded.info;
  info.reasoning_parser = reasoning;
  info.attention_backend = plan.decode.row->info.name;
  info.prefill_attention_backend = plan.prefill.row->info.name;
  info.attention_backend_reason = reason;
  info.hardware = hardware.description;

  loaded.tokenizer = text::Tokenizer::create(metadata.tokenizer, metadata.config.vocab);
  loaded.chat_template = open_chat_template(options.chat_template, &metadata.tokenizer);
  info.has_chat_template = loaded.chat_template->usable();
  info.tool_call_parser =
      tool_call_format(options.tool_call_parser, options.chat_template, metadata.tokenizer);
  loaded.formats = std::make_unique<AnswerFormats>(info, *loaded.tokenizer);
  // Tens of megabytes of words went into the tokenizer; they must not stand beside the weights.
  metadata.tokenizer = {};
  malloc_trim(0);

  attention::Needs needs = question.target;
  needs.kv_type = cache_type(plan, needs);
  const cache::KvLayout layout = attention::layout_of(plan, needs);
  info.kv_cache_dtype = attention::name_of(needs.kv_type);
  info.page_size = layout.page_size;
  info.kv_bytes_per_token = layout.bytes_per_token(metadata.config.layers);

  loaded.weights = checkpoint::open_weights(metadata);
  loaded.pool = std::make_unique<ThreadPool>(thread_count(options.threads));
  info.threads = loaded.pool->size();
  loaded.max_batch_tokens = info.chunked_prefill_size + info.max_running_requests;
  loaded.max_rows = info.max_running_requests + kMaxPromptRows;
  loaded.model = family.load(metadata, *loaded.weights, *loaded.pool,
                             {.pack = pack,
                              .repack = !options.no_repack,
                              .max_tokens = loaded.max_batch_tokens,
                              .max_rows = loaded.max_rows,
                              .deterministic = options.enable_deterministic_inference,
                              .on_progress = options.on_progress});
  if (!options.no_repack) loaded.weights.reset();
  info.weight_bytes = loaded.model->weight_bytes();
  info.pages_total = cache_pages(options, layout, info);
  loaded.store = std::make_unique<cache::KvStore>(layout, metadata.config.layers, info.pages_total);
  loaded.pages = std::make_unique<cache::PagePool>(static_cast<std::int32_t>(info.pages_total));
  loaded.backend = attention::assemble(plan, layout, *loaded.pool);
  info.load_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return loaded;
}

}  // namespace quern::engine
