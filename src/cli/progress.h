// How far the loading of a model is, on stderr: a bar on a terminal, a line every two seconds
// elsewhere. Used by every command that opens an engine.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

namespace quern::cli {

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
  int shown_percent_ = -1;
  std::chrono::steady_clock::time_point last_line_ = std::chrono::steady_clock::now();
};

}  // namespace quern::cli
