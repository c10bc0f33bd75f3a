#include "cli/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "base/log.h"

namespace quern::cli {
namespace {

constexpr int kBarCells = 40;
constexpr std::chrono::seconds kPlainInterval(2);  // between lines; a quick load prints none

}  // namespace

std::optional<int> ProgressPace::next(std::int64_t done, std::int64_t total, Time now) {
  if (total <= 0 || now - last_ < interval_) return std::nullopt;
  const double share = std::clamp(static_cast<double>(done) / static_cast<double>(total), 0.0, 1.0);
  const int percent = static_cast<int>(share * 100);
  if (percent <= percent_) return std::nullopt;
  last_ = now;
  percent_ = percent;
  return percent;
}

Progress::Progress(std::string label)
    : label_(std::move(label)),
      terminal_(isatty(STDERR_FILENO) == 1),
      pace_(terminal_ ? std::chrono::seconds(0) : kPlainInterval,
            std::chrono::steady_clock::now()) {}

std::function<void(std::int64_t, std::int64_t)> Progress::callback() {
  return [this](std::int64_t done, std::int64_t total) { show(done, total); };
}

void Progress::show(std::int64_t done, std::int64_t total) {
  if (!log().should_log(spdlog::level::info)) return;
  const auto percent = pace_.next(done, total, std::chrono::steady_clock::now());
  if (!percent) return;
  if (!terminal_) {
    log().info("{}: {} %", label_, *percent);
    return;
  }
  std::string bar;
  const int filled = kBarCells * *percent / 100;
  for (int cell = 0; cell < kBarCells; ++cell) bar += cell < filled ? "█" : "░";
  std::fprintf(stderr, "\r%s %s %3d %%", label_.c_str(), bar.c_str(), *percent);
  std::fflush(stderr);
  bar_ = true;
}

void Progress::finish() {
  if (!std::exchange(bar_, false)) return;
  std::fputs("\r\x1b[K", stderr);
  std::fflush(stderr);
}

}  // namespace quern::cli
