// What `quern bench serve` is asked to do: where the server is, how requests are shaped and how
// fast they come. Names and meanings are those of SGLang's bench_serving. Filled by
// cli/load_flags.cpp.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <string>
#include <string_view>

namespace quern::load {

// The API that requests are written in.
enum class Api { kChat, kCompletions, kGenerate };

inline constexpr std::int64_t kDefaultPrompts = 100;

enum class Workload { kRandom, kSharedPrefix, kMultiTurn, kFile };

struct Options {
  std::string base_url = "http://127.0.0.1:30000";
  std::string api_key;  // "": no Authorization header
  std::string model;    // "": the first that /v1/models names
  Api api = Api::kChat;
  bool stream = true;
  bool ignore_eos = true;  // every answer gets its whole length
  std::string extra_body;  // a JSON object whose members go into every request
  double temperature = 0;
  std::chrono::seconds timeout{600};  // of one request
  std::int64_t warmup_requests = 1;   // before the clock starts
  bool flush_cache = false;           // POST /flush_cache after the warm-up

  // Arrivals. A rate of infinity starts everything at once, within max_concurrency.
  double request_rate = std::numeric_limits<double>::infinity();  // conversations a second
  std::int64_t max_concurrency = 0;                               // users at once; 0: no limit
  std::uint64_t seed = 1;

  // Workload. Lengths count words that are one token in most vocabularies.
  Workload workload = Workload::kRandom;
  std::string file;              // of Workload::kFile
  std::int64_t num_prompts = 0;  // conversations; 0: kDefaultPrompts, of a file all
  std::int64_t input_len = 128, output_len = 128;  // of a turn; shared-prefix has its own
  double range_ratio = 1.0;    // lengths are drawn from [ratio · length, length]
  std::int64_t num_turns = 8;  // of multi-turn conversations
  std::int64_t prefix_groups = 4, prompts_per_group = 16;  // shared-prefix: their product is sent
  std::int64_t prefix_len = 512;  // of the part that a group shares; in multi-turn 0 for none

  // Called on the thread that runs the load as requests end.
  std::function<void(std::int64_t done, std::int64_t total)> on_progress;
};

}  // namespace quern::load
