// What /metrics tells, under SGLang's names, so that its dashboards work: counters and gauges come
// from the engine's own figures when somebody asks, latencies are kept here as the events of a
// request pass by. The I/O thread alone; the step loop knows nothing of it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "quern/engine.h"

namespace quern::server {

class Metrics {
 public:
  using Clock = std::chrono::steady_clock;

  // Figures carry the label model_name with `model`.
  explicit Metrics(const std::string& model);
  ~Metrics();

  // The times of one request's choices. Made when the request is there; `metrics` outlives it.
  class Timer {
   public:
    explicit Timer(Metrics& metrics, Clock::time_point begin = Clock::now())
        : metrics_(metrics), begin_(begin) {}
    void add(std::size_t choice, const TokenEvent& event, Clock::time_point now = Clock::now());

   private:
    struct Choice {
      bool begun = false;
      Clock::time_point last{};
    };
    Metrics& metrics_;
    Clock::time_point begin_;
    std::vector<Choice> choices_;
  };

  // The text of /metrics in Prometheus' format. `now` dates the throughput since the call before.
  std::string exposition(const EngineInfo& info, const EngineStats& stats,
                         Clock::time_point now = Clock::now());

 private:
  struct Families;
  std::unique_ptr<Families> families_;
};

}  // namespace quern::server
