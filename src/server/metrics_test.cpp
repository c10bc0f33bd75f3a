// What /metrics says: names, types and figures of requests that a server over a FakeEngine
// answered.
#include "server/metrics.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "server/test_server.h"

namespace quern::server {
namespace {

using std::chrono::milliseconds;

struct Exposition {
  std::map<std::string, std::string> types;  // of each name
  std::map<std::string, double> samples;     // by name and labels as they stand
};

// Reads the text as promtool would: every sample belongs to a family that was declared before it.
Exposition read(const std::string& text) {
  Exposition found;
  std::istringstream lines(text);
  std::set<std::string> helped;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string mark, what, name, type;
    if (line.starts_with("#")) {
      words >> mark >> what >> name >> type;
      if (what == "HELP") {
        EXPECT_TRUE(helped.insert(name).second) << name;
      }
      if (what == "TYPE") {
        EXPECT_TRUE(helped.contains(name)) << name;
        EXPECT_TRUE(found.types.emplace(name, type).second) << name;
      }
      continue;
    }
    const std::size_t blank = line.rfind(' ');
    const std::string sample = line.substr(0, blank);
    std::string family = sample.substr(0, sample.find('{'));
    for (const char* ending : {"_bucket", "_sum", "_count"}) {
      if (family.ends_with(ending) && !found.types.contains(family)) {
        family.resize(family.size() - std::string_view(ending).size());
        EXPECT_EQ(found.types[family], "histogram") << line;
      }
    }
    EXPECT_TRUE(found.types.contains(family)) << line;
    EXPECT_TRUE(family.starts_with("sglang:")) << line;
    EXPECT_EQ(found.types[family] == "counter", family.ends_with("_total")) << line;
    EXPECT_NE(sample.find("model_name=\"m\""), sample.npos) << line;
    EXPECT_TRUE(found.samples.emplace(sample, std::stod(line.substr(blank + 1))).second) << line;
  }
  return found;
}

std::string named(const std::string& name) { return "sglang:" + name + "{model_name=\"m\"}"; }
std::string bucket(const std::string& name, const std::string& le) {
  return "sglang:" + name + "_bucket{model_name=\"m\",le=\"" + le + "\"}";
}

TokenEvent event(int tokens, FinishReason reason = FinishReason::kNone) {
  TokenEvent made;
  made.token_ids.assign(static_cast<std::size_t>(tokens), 5);
  made.finish_reason = reason;
  made.prompt_tokens = 250;
  made.completion_tokens = 7;
  return made;
}

TEST(Metrics, PutsTimesIntoSglangsBuckets) {
  Metrics metrics("m");
  const auto begin = Metrics::Clock::now();
  Metrics::Timer timer(metrics, begin);
  timer.add(0, event(1), begin + milliseconds(150));
  timer.add(1, event(1), begin + milliseconds(350));
  timer.add(0, event(0), begin + milliseconds(155));  // text that was held back
  timer.add(0, event(4), begin + milliseconds(178));  // 7 ms each
  timer.add(0, event(1, FinishReason::kStop), begin + milliseconds(1650));
  const Exposition found = read(metrics.exposition(EngineInfo(), EngineStats()));
  const auto& at = found.samples;
  EXPECT_EQ(at.at(bucket("time_to_first_token_seconds", "0.1")), 0);
  EXPECT_EQ(at.at(bucket("time_to_first_token_seconds", "0.2")), 1);
  EXPECT_EQ(at.at(bucket("time_to_first_token_seconds", "0.4")), 2);
  EXPECT_EQ(at.at(bucket("inter_token_latency_seconds", "0.006")), 0);
  EXPECT_EQ(at.at(bucket("inter_token_latency_seconds", "0.008")), 4);
  EXPECT_EQ(at.at(bucket("inter_token_latency_seconds", "+Inf")), 5);
  EXPECT_NEAR(at.at(named("inter_token_latency_seconds_sum")), 1.5, 1e-9);
  EXPECT_EQ(at.at(bucket("e2e_request_latency_seconds", "2")), 1);
  EXPECT_EQ(at.at(bucket("prompt_tokens_histogram", "300")), 1);
  EXPECT_EQ(at.at(bucket("prompt_tokens_histogram", "100")), 0);
  EXPECT_EQ(at.at(named("generation_tokens_histogram_sum")), 7);
}

TEST(Metrics, TellsTheEnginesFigures) {
  Metrics metrics("m");
  EngineInfo info;
  info.page_size = 16;
  EngineStats stats;
  stats.running = 3;
  stats.queued = 2;
  stats.pages_used = 5;
  stats.pages_total = 20;
  stats.pages_cached = 2;
  stats.cache_hit_rate = 0.75;
  stats.cached_tokens_total = 400;
  stats.requests_total = 11;
  stats.aborted_total = 1;
  stats.prompt_tokens_total = 1'234'567'890'123;
  const auto begin = Metrics::Clock::now();
  metrics.exposition(info, stats, begin);
  stats.generation_tokens_total = 60;
  const Exposition found = read(metrics.exposition(info, stats, begin + std::chrono::seconds(2)));
  EXPECT_EQ(found.samples.at(named("num_running_reqs")), 3);
  EXPECT_EQ(found.samples.at(named("num_queue_reqs")), 2);
  EXPECT_EQ(found.samples.at(named("num_used_tokens")), 80);
  EXPECT_EQ(found.samples.at(named("max_total_num_tokens")), 320);
  EXPECT_EQ(found.samples.at(named("token_usage")), 0.25);
  EXPECT_EQ(found.samples.at(named("kv_evictable_tokens")), 32);
  EXPECT_EQ(found.samples.at(named("kv_available_tokens")), 208);
  EXPECT_EQ(found.samples.at(named("cache_hit_rate")), 0.75);
  EXPECT_EQ(found.samples.at(named("cached_tokens_total")), 400);
  EXPECT_EQ(found.samples.at(named("num_requests_total")), 11);
  EXPECT_EQ(found.samples.at(named("num_aborted_requests_total")), 1);
  EXPECT_EQ(found.samples.at(named("prompt_tokens_total")), 1'234'567'890'123.0);
  EXPECT_EQ(found.samples.at(named("generation_tokens_total")), 60);
  EXPECT_NEAR(found.samples.at(named("gen_throughput")), 30, 1e-6);
}

TEST(Metrics, AModelsNameCannotBreakTheFormat) {
  Metrics metrics("a\"b\\c\nd\xff");
  const std::string text = metrics.exposition(EngineInfo(), EngineStats());
  EXPECT_NE(text.find("model_name=\"a\\\"b\\\\c\\nd\xEF\xBF\xBD\""), text.npos);
}

TEST(Metrics, AServerCountsItsRequests) {
  TestServer server;
  for (int i = 0; i < 3; ++i) {
    server.post("/v1/completions", R"({"prompt":"abc","max_tokens":4})");
    server.post("/generate",
                R"({"text":"abc","stream":true,"sampling_params":{"max_new_tokens":4}})");
  }
  const TestReply reply = server.get("/metrics");
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.headers.at("Content-Type"), "text/plain; version=0.0.4; charset=utf-8");
  const Exposition found = read(reply.body);
  EXPECT_EQ(found.samples.at(named("num_requests_total")), 6);
  EXPECT_EQ(found.samples.at(named("time_to_first_token_seconds_count")), 6);
  EXPECT_EQ(found.samples.at(named("inter_token_latency_seconds_count")), 18);
  EXPECT_EQ(found.samples.at(named("e2e_request_latency_seconds_count")), 6);
  EXPECT_EQ(found.samples.at(named("generation_tokens_histogram_sum")), 24);
  EXPECT_EQ(server.get("/metrics", "HEAD").status, 200);
  EXPECT_EQ(server.post("/metrics", "{}").status, 405);
}

}  // namespace
}  // namespace quern::server
