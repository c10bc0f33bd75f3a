// `quern bench throughput`: many requests of equal lengths through the whole engine, as a server
// would put them: tokens a second in all, time to the first token, time between tokens.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <nlohmann/json.hpp>
#include <vector>

#include "base/error.h"
#include "base/errors/cli.h"
#include "cli/commands.h"
#include "cli/progress.h"

namespace quern::cli {
namespace {

using Clock = std::chrono::steady_clock;

// Submits requests so that `concurrency` are under way, and keeps when their tokens came. Events
// come on the engine's thread; submit on the caller's.
class Load {
 public:
  // Prompts are numbered from `first` on, so that a second load finds none of its own cached.
  Load(Engine& engine, const Options& options, std::int64_t first)
      : engine_(engine), options_(options), first_(first) {}

  // Seconds from the first submission to the last token. Throws: kAnswerFailed.
  double run(std::int64_t requests) {
    const std::int64_t limit =
        options_.bench_concurrency > 0 ? options_.bench_concurrency : requests;
    const auto start = Clock::now();
    for (std::int64_t i = 0; i < requests; ++i) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return running_ < limit; });
        ++running_;
      }
      submit(first_ + i);
    }
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return running_ == 0; });
    if (failed_.finish_reason == FinishReason::kError) {
      throw Error(errors::kAnswerFailed,
                  {{"id", failed_.error_id}, {"reason", failed_.error_message}});
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  }

  std::vector<double> first_ms, between_ms;  // of each request; of each later token
  std::int64_t prompt_tokens = 0, new_tokens = 0;

 private:
  void submit(std::int64_t index) {
    Request request;
    request.token_ids.emplace();
    for (std::int64_t i = 0; i < options_.bench_prompt_tokens; ++i) {
      request.token_ids->push_back(
          static_cast<std::int32_t>((index * 104729 + i * 7919 + 13) % engine_.info().vocab));
    }
    request.sampling = engine_.info().default_sampling;
    request.sampling.temperature = 0;
    request.sampling.ignore_eos = true;
    request.sampling.max_tokens = options_.bench_new_tokens;
    engine_.submit(request, [this, last = Clock::now(), first = true](
                                const TokenEvent& event) mutable { note(event, &last, &first); });
  }

  void note(const TokenEvent& event, Clock::time_point* last, bool* first) {
    const auto now = Clock::now();
    const double ms = std::chrono::duration<double, std::milli>(now - *last).count();
    const std::lock_guard lock(mutex_);
    const auto count = static_cast<std::int64_t>(event.token_ids.size());
    if (count > 0) {
      if (*first) {
        first_ms.push_back(ms);
      } else {
        between_ms.insert(between_ms.end(), event.token_ids.size(),
                          ms / static_cast<double>(count));
      }
      *first = false;
      *last = now;
    }
    if (event.finish_reason == FinishReason::kNone) return;
    if (event.finish_reason == FinishReason::kError) failed_ = event;
    prompt_tokens += event.prompt_tokens;
    new_tokens += event.completion_tokens;
    --running_;
    changed_.notify_all();
  }

  Engine& engine_;
  const Options& options_;
  const std::int64_t first_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::int64_t running_ = 0;
  TokenEvent failed_;
};

double quantile(std::vector<double>& values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(part * static_cast<double>(values.size() - 1) + 0.5)];
}

}  // namespace

int bench_throughput_command(const Options& options) {
  Progress progress("Loading");
  EngineOptions engine_options = options.engine;
  engine_options.on_progress = progress.callback();
  const std::unique_ptr<Engine> engine = Engine::open(engine_options);
  progress.finish();
  Load(*engine, options, options.bench_requests).run(1);  // warms caches
  const EngineStats before = engine->stats();
  Load load(*engine, options, 0);
  const double seconds = load.run(options.bench_requests);
  const EngineStats after = engine->stats();
  const double steps = after.step_seconds - before.step_seconds;
  const double outside = 1 - (after.forward_seconds - before.forward_seconds) / steps;
  const double input = static_cast<double>(load.prompt_tokens) / seconds;
  const double output = static_cast<double>(load.new_tokens) / seconds;
  const double first = quantile(load.first_ms, 0.5), first99 = quantile(load.first_ms, 0.99);
  const double next = quantile(load.between_ms, 0.5), next99 = quantile(load.between_ms, 0.99);
  const EngineInfo& info = engine->info();
  if (options.json) {
    const nlohmann::ordered_json report = {{"model", info.model_path},
                                           {"isa", info.isa},
                                           {"threads", info.threads},
                                           {"attention_backend", info.attention_backend},
                                           {"max_running_requests", info.max_running_requests},
                                           {"requests", options.bench_requests},
                                           {"concurrency", options.bench_concurrency},
                                           {"prompt_tokens", load.prompt_tokens},
                                           {"new_tokens", load.new_tokens},
                                           {"seconds", seconds},
                                           {"prompt_tokens_per_s", input},
                                           {"new_tokens_per_s", output},
                                           {"tokens_per_s", input + output},
                                           {"first_token_ms_median", first},
                                           {"first_token_ms_p99", first99},
                                           {"between_tokens_ms_median", next},
                                           {"between_tokens_ms_p99", next99},
                                           {"outside_the_model", outside}};
    fmt::print("{}\n", report.dump(2));
    return 0;
  }
  fmt::print("{} on {} ({} threads, {})\n", info.model_path, info.isa, info.threads,
             info.attention_backend);
  fmt::print("{} requests of {} + {} tokens in {:.2f} s\n", options.bench_requests,
             options.bench_prompt_tokens, options.bench_new_tokens, seconds);
  fmt::print("tokens/s: {:.1f} in all, {:.1f} of prompts, {:.1f} new\n", input + output, input,
             output);
  fmt::print("first token: median {:.1f} ms, p99 {:.1f} ms\n", first, first99);
  fmt::print("between tokens: median {:.2f} ms, p99 {:.2f} ms\n", next, next99);
  fmt::print("scheduling, sampling and texts: {:.2f} % of a step\n", 100 * outside);
  return 0;
}

}  // namespace quern::cli
