// How far the loading of a model is, on stderr: a bar on a terminal, a line every two seconds
// elsewhere. Used by every command that opens an engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace quern::cli {

// Which of many reports are worth showing: a percentage not shown before, `interval` after the
// last.
class ProgressPace {
 public:
  using Time = std::chrono::steady_clock::time_point;

  ProgressPace(std::chrono::milliseconds interval, Time start)
      : interval_(interval), last_(start) {}

  // The percentage to show now, if one is. `done` and `total` in any unit; total 0: never.
  std::optional<int> next(std::int64_t done, std::int64_t total, Time now);

 private:
  std::chrono::milliseconds interval_;
  Time last_;
  int percent_ = -1;
};

// One thread at a time; must outlive the use of callback(). Writes nothing where the log level is
// above info.
class Progress {
 public:
  explicit Progress(std::string label);
  ~Progress() { finish(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // For EngineOptions::on_progress: bytes done and in all.
  std::function<void(std::int64_t done, std::int64_t total)> callback();
  // Removes the bar. Also done by the destructor.
  void finish();

 private:
  void show(std::int64_t done, std::int64_t total);

  std::string label_;
  bool terminal_;
  ProgressPace pace_;
  bool bar_ = false;  // one stands on the terminal
};

}  // namespace quern::cli
