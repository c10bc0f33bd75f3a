#include "server/metrics.h"

#include <prometheus/histogram.h>
#include <prometheus/registry.h>
#include <prometheus/text_serializer.h>

#include <algorithm>
#include <map>
#include <sstream>

#include "base/error.h"

namespace quern::server {
namespace {

using Buckets = prometheus::Histogram::BucketBoundaries;

// SGLang's, so that quantiles of its dashboards mean the same.
const Buckets kFirstToken = {0.1, 0.2, 0.4, 0.6, 0.8, 1,  2,   4,   6,
                             8,   10,  20,  40,  60,  80, 100, 200, 400};
const Buckets kBetweenTokens = {0.002, 0.004, 0.006, 0.008, 0.010, 0.015, 0.020, 0.025,
                                0.030, 0.035, 0.040, 0.060, 0.080, 0.100, 0.200, 0.400,
                                0.600, 0.800, 1.000, 2.000, 4.000, 6.000, 8.000};
const Buckets kWhole = {0.1, 0.2, 0.4, 0.6, 0.8, 1,   2,   4,   6,    8,    10,
                        20,  40,  60,  80,  100, 200, 400, 600, 1200, 1800, 2400};
const Buckets kTokens = {100,   300,    500,    700,    1000,   1500,   2000,  3000,
                         4000,  5000,   6000,   7000,   8000,   9000,   10000, 12000,
                         15000, 20000,  22000,  25000,  30000,  35000,  40000, 66000,
                         99000, 132000, 300000, 600000, 900000, 1100000};

double seconds(Metrics::Clock::duration time) {
  return std::chrono::duration<double>(time).count();
}

}  // namespace

struct Metrics::Families {
  explicit Families(const std::string& model)
      : labels{{"model_name", valid_utf8(model)}},
        first_token(
            add("time_to_first_token_seconds", "Time to the first token in seconds.", kFirstToken)),
        between_tokens(add("inter_token_latency_seconds",
                           "Time between two tokens of a request in seconds.", kBetweenTokens)),
        whole(add("e2e_request_latency_seconds", "Time of a whole request in seconds.", kWhole)),
        prompt_tokens(add("prompt_tokens_histogram", "Tokens of a request's prompt.", kTokens)),
        generation_tokens(add("generation_tokens_histogram", "New tokens of a request.", kTokens)) {
  }

  prometheus::Histogram& add(const std::string& name, const std::string& help,
                             const Buckets& buckets) {
    return prometheus::BuildHistogram()
        .Name("sglang:" + name)
        .Help(help)
        .Register(registry)
        .Add(labels, buckets);
  }

  prometheus::Registry registry;
  std::map<std::string, std::string> labels;
  prometheus::Histogram &first_token, &between_tokens, &whole, &prompt_tokens, &generation_tokens;
  // Of the last exposition, for the throughput since then.
  Clock::time_point told = Clock::now();
  std::int64_t told_tokens = 0;
};

Metrics::Metrics(const std::string& model) : families_(std::make_unique<Families>(model)) {}
Metrics::~Metrics() = default;

void Metrics::Timer::add(std::size_t choice, const TokenEvent& event, Clock::time_point now) {
  if (choice >= choices_.size()) choices_.resize(choice + 1);
  Choice& state = choices_[choice];
  Families& families = *metrics_.families_;
  std::size_t tokens = event.token_ids.size();
  if (tokens > 0 && !state.begun) {
    families.first_token.Observe(seconds(now - begin_));
    state.begun = true;
    state.last = now;
    --tokens;
  }
  if (tokens > 0) {
    // Tokens that come together share the time that they took.
    const double each = seconds(now - state.last) / static_cast<double>(tokens);
    for (std::size_t i = 0; i < tokens; ++i) families.between_tokens.Observe(each);
    state.last = now;
  }
  if (event.finish_reason == FinishReason::kNone) return;
  families.whole.Observe(seconds(now - begin_));
  families.prompt_tokens.Observe(static_cast<double>(event.prompt_tokens));
  families.generation_tokens.Observe(static_cast<double>(event.completion_tokens));
}

std::string Metrics::exposition(const EngineInfo& info, const EngineStats& stats,
                                Clock::time_point now) {
  std::vector<prometheus::MetricFamily> all = families_->registry.Collect();
  const auto add = [&](prometheus::MetricType type, const std::string& name,
                       const std::string& help, double value) {
    prometheus::ClientMetric metric;
    for (const auto& [label, text] : families_->labels) metric.label.push_back({label, text});
    metric.counter.value = metric.gauge.value = value;
    all.push_back({"sglang:" + name, help, type, {metric}});
  };
  const auto counter = [&](const std::string& name, const std::string& help, std::int64_t value) {
    add(prometheus::MetricType::Counter, name, help, static_cast<double>(value));
  };
  const auto gauge = [&](const std::string& name, const std::string& help, double value) {
    add(prometheus::MetricType::Gauge, name, help, value);
  };
  const auto tokens = [&](std::int64_t pages) {
    return static_cast<double>(pages * info.page_size);
  };
  counter("prompt_tokens_total", "Tokens of prompts.", stats.prompt_tokens_total);
  counter("generation_tokens_total", "New tokens.", stats.generation_tokens_total);
  counter("cached_tokens_total", "Tokens of prompts that were cached.", stats.cached_tokens_total);
  counter("num_requests_total", "Requests taken.", stats.requests_total);
  counter("num_aborted_requests_total", "Requests cancelled or failed.", stats.aborted_total);
  gauge("num_running_reqs", "Requests that run.", static_cast<double>(stats.running));
  gauge("num_queue_reqs", "Requests that wait.", static_cast<double>(stats.queued));
  gauge("num_used_tokens", "Tokens of the KV cache that requests hold.", tokens(stats.pages_used));
  counter("num_retracted_requests_total", "Requests that made room and were resumed later.",
          stats.retracted_total);
  gauge("kv_evictable_tokens", "Tokens of cached prefixes that no request uses.",
        tokens(stats.pages_cached));
  gauge("cache_hit_rate", "Cached share of the prompts that were let in.", stats.cache_hit_rate);
  gauge("max_total_num_tokens", "Tokens that the KV cache holds.", tokens(stats.pages_total));
  gauge("token_usage", "Used share of the KV cache.",
        stats.pages_total > 0 ? tokens(stats.pages_used) / tokens(stats.pages_total) : 0);
  gauge("kv_available_tokens", "Tokens of the KV cache that nothing holds.",
        tokens(stats.pages_total - stats.pages_used - stats.pages_cached));
  const double span = seconds(now - families_->told);
  gauge("gen_throughput", "New tokens a second since the metrics were last asked for.",
        span > 0
            ? static_cast<double>(stats.generation_tokens_total - families_->told_tokens) / span
            : 0);
  families_->told = now;
  families_->told_tokens = stats.generation_tokens_total;
  std::ostringstream text;
  prometheus::TextSerializer().Serialize(text, all);
  return text.str();
}

}  // namespace quern::server
