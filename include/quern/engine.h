// quern's public face: open a model, submit requests, receive token events. Everything the command
// line and the HTTP server do goes through this header. Errors are quern::Error (base/error.h), a
// std::exception whose what() is the message.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "quern/types.h"

namespace quern {

// Names and defaults are SGLang's flags. 0 or "" mean: choose for this model and machine.
struct EngineOptions {
  std::string model_path;         // GGUF file or Hugging Face folder
  std::string served_model_name;  // default: model_path
  std::string chat_template;      // a .jinja or .json file or a built-in name; default: the model's
  // Formats of output_parsers.h. "auto": calls in the format that the model's template shows;
  // reasoning has no such choice and stays in the text without a name.
  std::string tool_call_parser = "auto", reasoning_parser;
  std::string grammar_backend = "xgrammar";  // or none: requests with a grammar are refused
  // White space in JSON by a grammar: a regex in place of the usual, or ", " and ": " alone.
  std::string constrained_json_whitespace_pattern;
  bool constrained_json_disable_any_whitespace = false;
  bool allow_special_tokens_in_prompt = false;  // as if each request said parse_special_tokens
  std::string dtype = "auto";                   // auto, bfloat16, float32
  bool no_repack = false;                       // weights stay mapped as they are stored
  std::string kv_cache_dtype = "auto";          // auto, bf16, float32, fp8_e4m3, int8
  std::int64_t context_length = 0;              // at most the model's
  std::int64_t max_running_requests = 0;
  std::int64_t max_total_tokens = 0;  // size of the KV cache
  std::int64_t chunked_prefill_size = 0;
  std::int64_t page_size = 0;
  bool disable_radix_cache = false;         // keep no computed prefixes for later requests
  std::string schedule_policy = "fcfs";     // fcfs, lpm, priority
  bool enable_priority_scheduling = false;  // the same as the policy priority
  bool schedule_low_priority_values_first = false;
  std::int64_t priority_scheduling_preemption_threshold = 10;
  bool disable_priority_preemption = false;
  double schedule_conservativeness = 1;  // of the pages reserved for answers
  std::int64_t max_prefill_tokens = 0;   // of one step
  bool disable_mixed_chunk = false;      // prompts and answers in steps of their own
  std::int64_t max_queued_requests = 0;  // that wait; 0: any number
  double request_waiting_timeout = 0, request_running_timeout = 0;  // seconds; 0: none
  std::string attention_backend;  // default: the first of the table that fits
  std::string prefill_attention_backend, decode_attention_backend;  // default: attention_backend
  bool enable_deterministic_inference = false;
  std::string speculative_algorithm;                // NGRAM, EAGLE, EAGLE3, NEXTN, STANDALONE, …
  std::string speculative_draft_model_path;         // as model_path
  std::string speculative_draft_attention_backend;  // default: the target's
  std::string speculative_attention_mode;           // who verifies: prefill (the default), decode
  std::int64_t speculative_num_steps = 0, speculative_eagle_topk = 0;
  std::int64_t speculative_num_draft_tokens = 0;
  std::int64_t tp = 1;            // tensor parallelism: heads are checked per rank
  std::string simulate_hardware;  // a named machine whose backends' contracts are to be run here
  std::uint64_t random_seed = 0;  // 0: from the clock
  int threads = 0;                // default: the smaller of affinity and cgroup quota
  // Called from open()'s thread as tensors are packed: done and total bytes.
  std::function<void(std::int64_t done, std::int64_t total)> on_progress;
};

// What was opened and how it runs; constant after open().
struct EngineInfo {
  std::string served_model_name, model_path, model_name, architecture;
  std::string attention_backend, prefill_attention_backend;  // they differ in a split
  std::string attention_backend_reason;
  std::string dtype, kv_cache_dtype, isa, hardware;
  std::int64_t vocab = 0, layers = 0, context_length = 0;
  std::int64_t page_size = 0, pages_total = 0, kv_bytes_per_token = 0, weight_bytes = 0;
  std::int64_t max_running_requests = 0, chunked_prefill_size = 0, max_prefill_tokens = 0;
  int threads = 0;
  bool has_chat_template = false;   // one that this build can render
  std::string tool_call_parser, reasoning_parser;  // "": none
  SamplingParams default_sampling;  // the model's generation_config.json over quern's own
  double load_seconds = 0;
};

struct EngineStats {
  std::int64_t running = 0, queued = 0;
  std::int64_t pages_used = 0, pages_total = 0;  // used: by requests that run
  std::int64_t pages_cached = 0;                 // of prefixes that no request uses; given up first
  std::int64_t requests_total = 0, aborted_total = 0;
  std::int64_t prompt_tokens_total = 0, generation_tokens_total = 0;
  std::int64_t cached_tokens_total = 0;  // of prompt_tokens_total
  double cache_hit_rate = 0;             // their share of the prompts that were let in
  std::int64_t retracted_total = 0;      // requests that made room and were resumed later
  std::int64_t steps_total = 0;
  double step_seconds = 0, forward_seconds = 0;  // of all steps, and of these inside the model
};

// Receives a request's events in order, on the engine's thread: it must return quickly and must not
// throw or call back into the engine, except cancel(). The last event has a finish_reason.
using EventSink = std::function<void(const TokenEvent&)>;

// Pull side of a request: next() blocks until something happened. Destroying an unfinished stream
// cancels its request. One thread.
class TokenStream {
 public:
  TokenStream(TokenStream&&) noexcept;
  TokenStream& operator=(TokenStream&&) noexcept;
  ~TokenStream();
  // The next event, or nullopt after the last one.
  std::optional<TokenEvent> next();
  RequestId id() const;

 private:
  friend class Engine;
  struct State;
  explicit TokenStream(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;  // shared with the sink on the engine's thread
};

// What becomes of running requests when the engine pauses. Queued ones wait, but for kAbort.
enum class PauseMode {
  kAbort,    // all requests end with kCancelled
  kRetract,  // back to the queue; no page stays in use, so that the cache can be flushed
  kInPlace,  // they keep their pages
};

class Engine {
 public:
  // Checks everything (backend, flags, files) before weights are read, then loads and starts the
  // engine's thread. Throws: Error.
  static std::unique_ptr<Engine> open(const EngineOptions& options);
  virtual ~Engine() = default;  // cancels what still runs

  // Tokenizes on the calling thread and queues the request. Any thread.
  // Throws: Error for a request that cannot be served (too long, bad parameters, no template).
  virtual RequestId submit(const Request& request, EventSink sink) = 0;
  TokenStream submit(const Request& request);

  // Takes effect within one step; the request's last event says kCancelled. Unknown or finished ids
  // are ignored. Any thread.
  virtual void cancel(RequestId id) = 0;

  // Refuses new requests, waits until the running ones ended or `limit` passed, cancels the rest.
  virtual void drain(std::chrono::milliseconds limit) = 0;

  // The last event of every request says kCancelled: of those that run and those in the queue. The
  // engine goes on. Any thread.
  virtual void cancel_all() = 0;

  // No step is computed between the two; requests are taken and wait. Nothing happens where the
  // engine is paused, or runs, already. Any thread but the engine's.
  virtual void pause(PauseMode mode) = 0;
  virtual void resume() = 0;

  // Forgets every cached prefix. Waits up to `limit`, a day at most, until no request runs; false,
  // and nothing is forgotten, where one still does. Any thread but the engine's.
  virtual bool flush_cache(std::chrono::milliseconds limit) = 0;

  virtual const EngineInfo& info() const = 0;
  virtual EngineStats stats() const = 0;  // any thread

  // The token ids that submit() would use; none for an empty text, which submit() refuses. Any
  // thread. Throws: Error.
  virtual std::vector<std::int32_t> tokenize(const Request& request) const = 0;
  // Valid UTF-8; control tokens write nothing where they are skipped. Any thread. Throws: Error for
  // an id outside the vocabulary.
  virtual std::string detokenize(const std::vector<std::int32_t>& ids,
                                 bool skip_special_tokens = true) const = 0;
};

}  // namespace quern
