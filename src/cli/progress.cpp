#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/log.h"

namespace quern::cli {
namespace {

constexpr int kBarCells = 40;
constexpr std::chrono::seconds kPlainInterval(2);  // between lines; a quick load prints none

}  // namespace

Progress::Progress(std::string label)
    : label_(std::move(label)), terminal_(isatty(STDERR_FILENO) == 1) {}

std::function<void(std::int64_t, std::int64_t)> Progress::callback() {
  return [this](std::int64_t done, std::int64_t total) { show(done, total); };
}

void Progress::show(std::int64_t done, std::int64_t total) {
  if (total <= 0 || !log().should_log(spdlog::level::info)) return;
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const int percent = static_cast<int>(share * 100);
  if (percent <= shown_percent_) return;
  if (!terminal_) {
    const auto now = std::chrono::steady_clock::now();
    if (now < last_line_ + kPlainInterval) return;
    last_line_ = now;
    log().info("{}: {} %", label_, percent);
  }
  shown_percent_ = percent;
  if (!terminal_) return;
  std::string bar;
  const int filled = kBarCells * percent / 100;
  for (int cell = 0; cell < kBarCells; ++cell) bar += cell < filled ? "█" : "░";
  std::fprintf(stderr, "\r%s %s %3d %%", label_.c_str(), bar.c_str(), percent);
  std::fflush(stderr);
}

void Progress::finish() {
  if (!terminal_ || shown_percent_ < 0) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
  shown_percent_ = -1;
}

}  // namespace quern::cli
