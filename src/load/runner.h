// Sends a workload to a server and keeps when what came. One thread; called by `quern bench serve`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "load/options.h"
#include "load/workload.h"

namespace quern::load {

// One request. Times are seconds since the load began.
struct Record {
  std::int64_t turn = 0;  // of its conversation, from 0
  double due = 0;         // when it was to be sent; later turns: when the answer before ended
  double sent = 0;
  double first = 0;  // first text of the answer
  double end = 0;
  std::vector<float> gaps;  // seconds before each further token
  std::int64_t prompt_tokens = 0, output_tokens = 0, cached_tokens = 0;
  bool counted = false;  // by the server; else output_tokens counts events
  std::string failure;   // "": it was answered

  bool answered() const { return failure.empty(); }
  double latency() const { return end - sent; }
  double first_token() const { return first - sent; }
};

struct Result {
  std::string model;
  std::vector<Record> records;  // in order of their end
  double seconds = 0;           // from the first request to the last answer
  std::int64_t peak = 0;        // most requests under way at once
  bool interrupted = false;     // by SIGINT: what had ended until then
};

// Requires: a base_url that parse_url takes. Throws: kLoadUnreachable, kLoadRefused where the first
// requests, before the clock starts, find no server or one that does not serve them.
Result run_load(const Options& options, const std::vector<Conversation>& workload);

}  // namespace quern::load
