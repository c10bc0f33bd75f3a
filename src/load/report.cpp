#include "load/report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

namespace quern::load {
namespace {

constexpr double kMs = 1e3;
constexpr std::size_t kShownFailures = 8;

std::string_view name_of(Api api) {
  switch (api) {
    case Api::kChat: return "sglang-oai-chat";
    case Api::kCompletions: return "sglang-oai";
    case Api::kGenerate: return "sglang";
  }
  return "";
}

std::string_view name_of(Workload workload) {
  switch (workload) {
    case Workload::kRandom: return "random";
    case Workload::kSharedPrefix: return "generated-shared-prefix";
    case Workload::kMultiTurn: return "multi-turn";
    case Workload::kFile: return "openai";
  }
  return "";
}

void add_spread(Json* json, const std::string& name, const Spread& spread) {
  (*json)["mean_" + name + "_ms"] = spread.mean;
  (*json)["median_" + name + "_ms"] = spread.p50;
  (*json)["std_" + name + "_ms"] = spread.deviation;
  (*json)["p90_" + name + "_ms"] = spread.p90;
  (*json)["p99_" + name + "_ms"] = spread.p99;
  (*json)["max_" + name + "_ms"] = spread.most;
}

std::string row_of(std::string_view name, const Spread& s) {
  return fmt::format("{:<26}{:>11.1f}{:>11.1f}{:>11.1f}{:>11.1f}{:>11.1f}\n", name, s.mean, s.p50,
                     s.p90, s.p99, s.most);
}

double rate(std::int64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

}  // namespace

Spread spread_of(std::vector<double> values) {
  Spread spread;
  if (values.empty()) return spread;
  std::sort(values.begin(), values.end());
  const auto count = static_cast<double>(values.size());
  for (const double value : values) spread.mean += value / count;
  for (const double value : values) {
    spread.deviation += (value - spread.mean) * (value - spread.mean) / count;
  }
  spread.deviation = std::sqrt(spread.deviation);
  const auto rank = [&](double part) {
    return values[static_cast<std::size_t>(std::max(std::ceil(part * count), 1.0)) - 1];
  };
  spread.p50 = rank(0.5);
  spread.p90 = rank(0.9);
  spread.p99 = rank(0.99);
  spread.most = values.back();
  return spread;
}

Summary summarize(const Result& result) {
  Summary summary;
  summary.seconds = result.seconds;
  summary.peak = result.peak;
  summary.interrupted = result.interrupted;
  std::vector<double> first, between, per_token, latency;
  std::map<std::int64_t, std::vector<double>> by_turn;
  std::map<std::string, std::int64_t> failures;
  double busy = 0;
  for (const Record& record : result.records) {
    busy += record.latency();
    summary.latest_start_ms = std::max(summary.latest_start_ms, (record.sent - record.due) * kMs);
    if (!record.answered()) {
      ++summary.failed;
      ++failures[record.failure];
      continue;
    }
    ++summary.completed;
    summary.prompt_tokens += record.prompt_tokens;
    summary.output_tokens += record.output_tokens;
    summary.cached_tokens += record.cached_tokens;
    summary.counted = summary.counted && record.counted;
    first.push_back(record.first_token() * kMs);
    by_turn[record.turn].push_back(first.back());
    latency.push_back(record.latency() * kMs);
    for (const float gap : record.gaps) between.push_back(static_cast<double>(gap) * kMs);
    if (record.output_tokens > 1) {
      per_token.push_back((record.end - record.first) * kMs /
                          static_cast<double>(record.output_tokens - 1));
    }
  }
  if (result.seconds > 0) summary.concurrency = busy / result.seconds;
  summary.first_token = spread_of(std::move(first));
  summary.between_tokens = spread_of(std::move(between));
  summary.per_token = spread_of(std::move(per_token));
  summary.latency = spread_of(std::move(latency));
  if (by_turn.size() > 1) {
    for (auto& [turn, values] : by_turn) {
      summary.first_token_of_turn.push_back(spread_of(std::move(values)));
    }
  }
  summary.failures.assign(failures.begin(), failures.end());
  std::stable_sort(summary.failures.begin(), summary.failures.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  return summary;
}

std::string text_of(const Summary& s) {
  std::string text;
  const auto line = [&](std::string_view name, const std::string& value) {
    text += fmt::format("{:<26}{}\n", name, value);
  };
  line("requests", fmt::format("{} answered, {} failed, in {:.2f} s{}", s.completed, s.failed,
                               s.seconds, s.interrupted ? " (interrupted)" : ""));
  line("requests/s", fmt::format("{:.2f}, {:.1f} under way on average, {} at most",
                                 rate(s.completed, s.seconds), s.concurrency, s.peak));
  line("tokens", fmt::format("{} in ({} from the cache), {} out{}", s.prompt_tokens,
                             s.cached_tokens, s.output_tokens,
                             s.counted ? "" : " (by events: the server does not count them)"));
  line("tokens/s", fmt::format("{:.1f} in, {:.1f} out, {:.1f} in all",
                               rate(s.prompt_tokens, s.seconds), rate(s.output_tokens, s.seconds),
                               rate(s.prompt_tokens + s.output_tokens, s.seconds)));
  text += fmt::format("{:<26}{:>11}{:>11}{:>11}{:>11}{:>11}\n", "milliseconds", "mean", "p50",
                      "p90", "p99", "most");
  text += row_of("first token (TTFT)", s.first_token);
  text += row_of("between tokens (ITL)", s.between_tokens);
  text += row_of("per token (TPOT)", s.per_token);
  text += row_of("whole answer (E2E)", s.latency);
  for (std::size_t i = 0; i < s.first_token_of_turn.size(); ++i) {
    text += row_of(fmt::format("TTFT of turn {}", i + 1), s.first_token_of_turn[i]);
  }
  if (s.latest_start_ms > 100) {
    line("note",
         fmt::format("requests were sent up to {:.0f} ms after they were due", s.latest_start_ms));
  }
  for (std::size_t i = 0; i < std::min(s.failures.size(), kShownFailures); ++i) {
    line(i == 0 ? "failures" : "",
         fmt::format("{} × {}", s.failures[i].second, s.failures[i].first));
  }
  return text;
}

Json json_of(const Summary& s, const Options& options, const Result& result, bool details) {
  Json json = {{"backend", name_of(options.api)},
               {"base_url", options.base_url},
               {"model", result.model},
               {"dataset_name", name_of(options.workload)},
               {"stream", options.stream},
               {"seed", options.seed},
               {"request_rate",
                std::isfinite(options.request_rate) ? Json(options.request_rate) : Json("inf")},
               {"max_concurrency",
                options.max_concurrency > 0 ? Json(options.max_concurrency) : Json(nullptr)},
               {"interrupted", s.interrupted},
               {"duration", s.seconds},
               {"completed", s.completed},
               {"failed", s.failed},
               {"total_input_tokens", s.prompt_tokens},
               {"total_output_tokens", s.output_tokens},
               {"total_cached_tokens", s.cached_tokens},
               {"tokens_counted_by_server", s.counted},
               {"request_throughput", rate(s.completed, s.seconds)},
               {"input_throughput", rate(s.prompt_tokens, s.seconds)},
               {"output_throughput", rate(s.output_tokens, s.seconds)},
               {"total_throughput", rate(s.prompt_tokens + s.output_tokens, s.seconds)},
               {"concurrency", s.concurrency},
               {"max_concurrent_requests", s.peak},
               {"max_start_delay_ms", s.latest_start_ms}};
  add_spread(&json, "e2e_latency", s.latency);
  add_spread(&json, "ttft", s.first_token);
  add_spread(&json, "tpot", s.per_token);
  add_spread(&json, "itl", s.between_tokens);
  Json turns = Json::array();
  for (const Spread& spread : s.first_token_of_turn) {
    add_spread(&turns.emplace_back(Json::object()), "ttft", spread);
  }
  json["turns"] = std::move(turns);
  Json failures = Json::array();
  for (const auto& [reason, count] : s.failures) {
    failures.push_back({{"reason", reason}, {"count", count}});
  }
  json["failures"] = std::move(failures);
  if (!details) return json;
  Json requests = Json::array();
  for (const Record& record : result.records) {
    requests.push_back({{"turn", record.turn},
                        {"due", record.due},
                        {"start", record.sent},
                        {"ttft", record.first_token()},
                        {"e2e_latency", record.latency()},
                        {"itl", record.gaps},
                        {"prompt_tokens", record.prompt_tokens},
                        {"output_tokens", record.output_tokens},
                        {"cached_tokens", record.cached_tokens},
                        {"error", record.failure}});
  }
  json["requests"] = std::move(requests);
  return json;
}

}  // namespace quern::load
