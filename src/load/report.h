// What a load measured, in figures, as text, as JSON and as a plot. Names of the JSON are those of
// SGLang's bench_serving.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "load/bounded_json.h"
#include "load/runner.h"

namespace quern::load {

// Milliseconds of one kind; zeros where there is no value. Percentiles are the nearest rank's.
struct Spread {
  double mean = 0, deviation = 0, p50 = 0, p90 = 0, p99 = 0, most = 0;
};
Spread spread_of(std::vector<double> milliseconds);

struct Summary {
  std::int64_t completed = 0, failed = 0;
  std::int64_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0;
  bool counted = true;                  // every answer's tokens were counted by the server
  double seconds = 0, concurrency = 0;  // concurrency: requests under way on average
  std::int64_t peak = 0;
  double latest_start_ms = 0;  // the longest that a request was sent after it was due
  Spread first_token, between_tokens, per_token, latency;
  std::vector<Spread> first_token_of_turn;  // of conversations with several turns
  std::vector<std::pair<std::string, std::int64_t>> failures;  // reason and count, most first
  bool interrupted = false;
};
Summary summarize(const Result& result);

// Tables for a person.
std::string text_of(const Summary& summary);
// With `details` the figures of every request too.
Json json_of(const Summary& summary, const Options& options, const Result& result, bool details);

// An SVG picture: how many requests saw at most which time, for the first token, between tokens and
// the whole answer; and below it every request by its start. Throws: nothing.
std::string plot_of(const Result& result, const std::string& title);

}  // namespace quern::load
