// The flags that several commands share: the model, how it runs, sampling, serving, measuring.
#include "cli/engine_flags.h"

namespace quern::cli {
namespace {

void add_backends(Flags flags, Options* o) {
  EngineOptions& e = o->engine;
  flags.text("--attention-backend", &e.attention_backend,
             "Attention backend; without it the first that fits (`quern check` shows them)",
             "NAME");
  flags.text("--prefill-attention-backend", &e.prefill_attention_backend,
             "Attention backend for prompts; without it --attention-backend", "NAME");
  flags.text("--decode-attention-backend", &e.decode_attention_backend,
             "Attention backend for the tokens after a prompt; without it --attention-backend",
             "NAME");
  flags.on("--enable-deterministic-inference", &e.enable_deterministic_inference,
           "Only backends that give the same bits in every batch; quern's own do, "
           "latent attention by running absorbed alone");
  flags.integer("--tp,--tp-size,--tensor-parallel-size", &e.tp, 1, 1024,
                "Ranks that share the heads, for checks and estimates", "1");
  flags.text("--simulate-hardware", &e.simulate_hardware,
             "Run the rules of a named machine's backends on this one, e.g. h100, b200", "NAME");
}

void add_speculation(Flags flags, Options* o) {
  EngineOptions& e = o->engine;
  flags.text("--speculative-algorithm", &e.speculative_algorithm,
             "Speculative decoding, e.g. NGRAM, EAGLE", "WORD");
  flags.text("--speculative-draft-model-path,--speculative-draft-model",
             &e.speculative_draft_model_path, "Draft model, as --model", "PATH");
  flags.integer("--speculative-num-steps", &e.speculative_num_steps, 1, 1 << 16,
                "Steps of the draft model");
  flags.integer("--speculative-eagle-topk", &e.speculative_eagle_topk, 1, 1 << 16,
                "Branches of speculative decoding");
  flags.integer("--speculative-num-draft-tokens", &e.speculative_num_draft_tokens, 1, 1 << 16,
                "Draft tokens that one step checks");
  flags.text("--speculative-draft-attention-backend", &e.speculative_draft_attention_backend,
             "Attention backend of the draft model; without it the target's", "NAME");
  flags.choice("--speculative-attention-mode", &e.speculative_attention_mode, {"prefill", "decode"},
               "Which half of a split checks draft tokens");
}

}  // namespace

void add_model(Flags flags, Options* o) {
  flags.text("--model,--model-path", &o->engine.model_path,
             "GGUF file or Hugging Face folder; without it the default model", "PATH");
  flags.choice("--log-level", &o->log_level, {"debug", "info", "warning", "error"},
               "What is logged to stderr");
}

void add_chat_template(Flags flags, Options* o) {
  flags.text(
      "--chat-template", &o->engine.chat_template,
      "Chat template in place of the model's: a .jinja file, SGLang's .json, or chatml, llama-2",
      "FILE|NAME");
}

void add_special_tokens(Flags flags, Options* o) {
  flags.on("--allow-special-tokens-in-prompt", &o->engine.allow_special_tokens_in_prompt,
           "Control tokens such as <|im_end|> count as such in the text of users too");
}

void add_engine(Flags flags, Options* o) {
  EngineOptions& e = o->engine;
  flags.choice("--dtype", &e.dtype, {"auto", "bfloat16", "float32"}, "Type of the activations");
  flags.on(
      "--no-repack", &e.no_repack,
      "Leave weights in the mapped file and pack them for each use: less memory, slower steps");
  flags.text("--kv-cache-dtype", &e.kv_cache_dtype,
             "Type of the KV cache, e.g. bf16, float32, fp8_e4m3, int8", "WORD");
  add_backends(flags, o);
  flags.integer("--context-length", &e.context_length, 1, kNoLimit,
                "Tokens of prompt and answer together", "the model's");
  flags.integer("--page-size", &e.page_size, 1, 65536, "Tokens in a page of the KV cache",
                "the backend's");
  flags.integer("--max-running-requests", &e.max_running_requests, 1, 1'000'000,
                "Requests that run at once", "by memory");
  flags.integer("--max-total-tokens", &e.max_total_tokens, 1, kNoLimit, "Tokens in the KV cache",
                "by memory");
  flags.integer("--chunked-prefill-size", &e.chunked_prefill_size, 1, 1 << 24,
                "Prompt tokens in one step", "by model");
  flags.integer("--random-seed", &e.random_seed, 0, kNoLimit,
                "Seed of requests that bring none; 0: from the clock", "0");
  flags.integer("--threads", &e.threads, 1, 4096, "Compute threads", "the usable CPUs");
  add_chat_template(flags, o);
  flags.text("--tool-call-parser", &e.tool_call_parser,
             "Format of the model's tool calls, e.g. qwen25, llama3; auto: as its template shows",
             "NAME");
  flags.text(
      "--reasoning-parser", &e.reasoning_parser,
      "How the model marks its reasoning, e.g. qwen3, deepseek-r1; without it reasoning stays "
      "in the text",
      "NAME");
  flags.text("--grammar-backend", &e.grammar_backend,
             "What compiles the grammars of requests: xgrammar, or none, which refuses them",
             "NAME");
  flags.text("--constrained-json-whitespace-pattern", &e.constrained_json_whitespace_pattern,
             "Regex of the white space in JSON by a grammar", "REGEX");
  flags.on("--constrained-json-disable-any-whitespace", &e.constrained_json_disable_any_whitespace,
           "JSON by a grammar has ', ' and ': ' and no other white space");
  add_special_tokens(flags, o);
  add_scheduling(flags, o);
  add_speculation(flags, o);
}

void add_scheduling(Flags flags, Options* o) {
  EngineOptions& e = o->engine;
  flags.on("--disable-radix-cache", &e.disable_radix_cache,
           "Keep no computed prefixes for later requests");
  flags.choice("--schedule-policy", &e.schedule_policy, {"fcfs", "lpm", "priority"},
               "Who is let in next: first come, longest cached prefix, highest priority");
  flags.on("--enable-priority-scheduling", &e.enable_priority_scheduling,
           "The same as --schedule-policy priority");
  flags.on("--schedule-low-priority-values-first", &e.schedule_low_priority_values_first,
           "A lower value is a higher priority");
  flags.integer("--priority-scheduling-preemption-threshold",
                &e.priority_scheduling_preemption_threshold, 0, 1'000'000'000,
                "A request takes the place of another whose priority is lower by more", "10");
  flags.on("--disable-priority-preemption", &e.disable_priority_preemption,
           "No request takes the place of one that runs");
  flags.real("--schedule-conservativeness", &e.schedule_conservativeness, false, 0, 1000,
             "Of the pages that are reserved for answers; higher retracts fewer requests", "1");
  flags.integer("--max-prefill-tokens", &e.max_prefill_tokens, 1, 1 << 24,
                "Prompt tokens in one step; --chunked-prefill-size counts too", "16384");
  flags.on("--disable-mixed-chunk", &e.disable_mixed_chunk,
           "Prompts and answers in steps of their own, in turn");
  flags.integer("--max-queued-requests", &e.max_queued_requests, 1, 1'000'000'000,
                "Requests that may wait; more get 503", "any number");
  flags.real("--request-waiting-timeout", &e.request_waiting_timeout, true, 0, 1e9,
             "Seconds that a request may wait", "any");
  flags.real("--request-running-timeout", &e.request_running_timeout, true, 0, 1e9,
             "Seconds that a request may run", "any");
}

void add_sampling(Flags flags, Options* o) {
  flags.integer("--max-tokens", &o->max_tokens, 1, kNoLimit, "Most new tokens",
                "as the context holds; 512 in generate");
  flags.real("--temperature", &o->temperature, false, 0, 1e6, "0 is greedy");
  flags.integer("--top-k", &o->top_k, -1, kNoLimit, "Only the k likeliest tokens; 0 and -1: all");
  flags.real("--top-p", &o->top_p, true, 0, 1, "Only the likeliest tokens of this mass");
  flags.real("--min-p", &o->min_p, false, 0, 1,
             "Only tokens at least this likely, as a share of the likeliest");
  flags.integer("--seed", &o->seed, 0, kNoLimit, "Equal seeds give equal texts");
  flags.text("--system", &o->system_prompt, "System prompt in place of the template's own");
}

void add_address(Flags flags, Options* o) {
  flags.text("--host", &o->host, "Address to listen on", "ADDRESS");
  flags.integer("--port", &o->port, 0, 65535, "Port to listen on; 0: any free one", "30000");
}

void add_serve(Flags flags, Options* o) {
  flags.text("--served-model-name", &o->engine.served_model_name, "The model's name in the API");
  add_address(flags, o);
  flags.text("--api-key", &o->api_key, "Key that every request but /health must bring", "KEY");
  flags.integer("--max-body-bytes", &o->max_body_bytes, 1, std::int64_t{1} << 31,
                "Largest HTTP request", std::to_string(o->max_body_bytes));
  flags.integer("--idle-timeout", &o->idle_timeout_s, 1, 86400,
                "Seconds an idle connection may stay", std::to_string(o->idle_timeout_s));
  flags.integer("--drain-timeout", &o->drain_timeout_s, 0, 86400,
                "Seconds that running requests get after SIGTERM",
                std::to_string(o->drain_timeout_s));
}

void add_latency(Flags flags, Options* o) {
  flags.integer("--prefill", &o->bench_prefill, 1, 1 << 24, "Prompt tokens", "512");
  flags.integer("--decode", &o->bench_decode, 1, 1 << 24, "New tokens", "128");
  flags.integer("--depth", &o->bench_depth, 0, 1 << 24, "Tokens in the cache before the prompt",
                "0");
  flags.integer("--batch", &o->bench_batch, 1, 4096, "Equal requests at once", "1");
  flags.integer("--repeats", &o->bench_repeats, 1, 10000, "Measured runs; the median counts", "3");
}

void add_kernels(Flags flags, Options* o) {
  flags.integer("--threads", &o->engine.threads, 1, 4096, "Compute threads", "the usable CPUs");
  flags.integer("--repeats", &o->bench_kernel_repeats, 1, 10000,
                "Calm runs of each kernel; the median counts", "15");
  flags.text("--only", &o->bench_only, "Only kernels with this in their name", "WORDS");
}

void add_throughput(Flags flags, Options* o) {
  flags.integer("--requests", &o->bench_requests, 1, 1'000'000, "Requests in all", "64");
  flags.integer("--prompt-tokens", &o->bench_prompt_tokens, 1, 1 << 24, "Tokens of each prompt",
                "128");
  flags.integer("--new-tokens", &o->bench_new_tokens, 1, 1 << 24, "New tokens of each request",
                "128");
  flags.integer("--concurrency", &o->bench_concurrency, 1, 1'000'000, "Requests under way at once",
                "all");
}

void add_explain(Flags flags, Options* o) {
  flags.positional("text", &o->explain_text,
                   "An id, a slug or a pasted log line or traceback; -: standard input");
  flags.text("--search", &o->search, "List the entries that hold these words", "WORDS");
  flags.on("--list", &o->explain_list, "List every entry");
  flags.on("--json", &o->json, "Print one JSON object");
  flags.text("--hardware", &o->hardware, "With --model: a named machine in place of this one",
             "NAME");
}

}  // namespace quern::cli
