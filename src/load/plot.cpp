// The latency plot: two panels, as a single SVG file without scripts.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>

#include "load/report.h"

namespace quern::load {
namespace {

constexpr double kWidth = 960, kLeft = 72, kRight = 24;
constexpr double kTop = 76, kPanel = 250, kGap = 86, kBottom = 52;
constexpr double kHeight = kTop + 2 * kPanel + kGap + kBottom;
constexpr std::size_t kCurvePoints = 240, kDots = 2000;

struct Series {
  std::string_view name, color;
  std::vector<double> ms;  // ascending
};

// Places times on a logarithmic axis between whole steps of 1, 2, 5, 10, ….
class LogScale {
 public:
  LogScale(double least, double most) {
    least = std::max(least, 1e-3);
    most = std::max(most, least * 1.01);
    low_ = step(least, false);
    high_ = step(most, true);
  }
  double at(double ms) const {
    return std::clamp((std::log10(std::max(ms, 1e-9)) - low_) / (high_ - low_), 0.0, 1.0);
  }
  // Milliseconds of the grid lines: 1, 2, 5 in each decade, or the decades where those are many.
  std::vector<double> ticks() const {
    std::vector<double> made;
    const bool fine = high_ - low_ < 3.5;
    for (int decade = static_cast<int>(std::floor(low_)); decade <= std::ceil(high_); ++decade) {
      for (const double step : {1.0, 2.0, 5.0}) {
        if (!fine && step != 1.0) continue;
        const double log = decade + std::log10(step);
        if (log > low_ - 1e-9 && log < high_ + 1e-9) made.push_back(std::pow(10, log));
      }
    }
    return made;
  }

 private:
  // log10 of the step at or above `ms`, or at or below it.
  static double step(double ms, bool above) {
    const double log = std::log10(ms), whole = std::floor(log);
    const std::array<double, 4> steps = {0.0, std::log10(2.0), std::log10(5.0), 1.0};
    if (above) return whole + *std::lower_bound(steps.begin(), steps.end(), log - whole);
    return whole + *std::prev(std::upper_bound(steps.begin(), steps.end(), log - whole));
  }

  double low_, high_;  // log10 of milliseconds
};

std::string time_word(double ms) {
  if (ms >= 1000) return fmt::format("{:g} s", ms / 1000);
  return fmt::format("{:g} ms", ms);
}

std::string escaped(std::string_view text) {
  std::string made;
  for (const char c : text) {
    switch (c) {
      case '&': made += "&amp;"; break;
      case '<': made += "&lt;"; break;
      case '>': made += "&gt;"; break;
      default: made += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
    }
  }
  return made;
}

std::string label(double x, double y, std::string_view anchor, std::string_view text,
                  std::string_view color = "#475569") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n",
                     x, y, anchor, color, escaped(text));
}

std::string line(double x1, double y1, double x2, double y2, std::string_view color) {
  return fmt::format(
      "<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2,
      y2, color);
}

constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr std::string_view kGrid = "#e2e8f0";

// Share of values at or below each time.
std::string curves(const std::array<Series, 3>& all, const LogScale& scale) {
  std::string svg;
  const double bottom = kTop + kPanel;
  for (const double tick : scale.ticks()) {
    const double x = kLeft + scale.at(tick) * kPlotWidth;
    svg += line(x, kTop, x, bottom, kGrid) + label(x, bottom + 18, "middle", time_word(tick));
  }
  for (const int percent : {0, 25, 50, 75, 90, 99}) {
    const double y = bottom - kPanel * percent / 100;
    svg += line(kLeft, y, kWidth - kRight, y, kGrid);
    svg += label(kLeft - 8, y + (percent == 99 ? -1.0 : 4.0), "end", fmt::format("{} %", percent));
  }
  for (const Series& series : all) {
    if (series.ms.empty()) continue;
    const auto count = series.ms.size();
    std::string points;
    for (std::size_t i = 0; i <= kCurvePoints; ++i) {
      const double share = static_cast<double>(i) / kCurvePoints;
      const auto rank = static_cast<std::size_t>(share * static_cast<double>(count - 1) + 0.5);
      points += fmt::format("{:.1f},{:.1f} ", kLeft + scale.at(series.ms[rank]) * kPlotWidth,
                            bottom - kPanel * share);
    }
    svg += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"><title>{}: median "
        "{:.1f} ms</title></polyline>\n",
        points, series.color, escaped(series.name), series.ms[count / 2]);
  }
  return svg;
}

// Every request by its start: first token, whole answer, failures at the bottom.
std::string dots(const Result& result, const std::array<Series, 3>& all, const LogScale& scale) {
  std::string svg;
  const double top = kTop + kPanel + kGap, bottom = top + kPanel;
  for (const double tick : scale.ticks()) {
    const double y = bottom - scale.at(tick) * kPanel;
    svg +=
        line(kLeft, y, kWidth - kRight, y, kGrid) + label(kLeft - 8, y + 4, "end", time_word(tick));
  }
  const double seconds = std::max(result.seconds, 1e-3);
  const double decade = std::pow(10, std::floor(std::log10(seconds / 4)));
  const double parts = seconds / 4 / decade;
  const double step = decade * (parts < 2 ? 1 : parts < 5 ? 2 : 5);
  for (int i = 0; i * step <= seconds; ++i) {
    const double x = kLeft + kPlotWidth * i * step / seconds;
    svg += line(x, bottom, x, bottom + 4, "#94a3b8");
    svg += label(x, bottom + 18, "middle", fmt::format("{:g} s", i * step));
  }
  const std::size_t skip = result.records.size() / kDots + 1;
  for (std::size_t i = 0; i < result.records.size(); i += skip) {
    const Record& record = result.records[i];
    const double x = kLeft + record.sent / seconds * kPlotWidth;
    const auto dot = [&](double time, std::string_view color) {
      svg += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"2.5\" fill=\"{}\" fill-opacity=\"0.7\"/>\n", x,
          bottom - scale.at(time * 1e3) * kPanel, color);
    };
    if (record.answered()) {
      dot(record.first_token(), all[1].color);
      dot(record.latency(), all[2].color);
    } else {
      svg += fmt::format(
          "<path d=\"M{0:.1f} {1:.1f}l6 6m0 -6l-6 6\" "
          "stroke=\"#dc2626\"><title>{2}</title></path>\n",
          x - 3, bottom - 9, escaped(record.failure));
    }
  }
  return svg;
}

}  // namespace

std::string plot_of(const Result& result, const std::string& title) {
  std::array<Series, 3> all = {Series{"between tokens (ITL)", "#0d9488", {}},
                               Series{"first token (TTFT)", "#2563eb", {}},
                               Series{"whole answer (E2E)", "#c2410c", {}}};
  for (const Record& record : result.records) {
    if (!record.answered()) continue;
    for (const float gap : record.gaps) all[0].ms.push_back(static_cast<double>(gap) * 1e3);
    all[1].ms.push_back(record.first_token() * 1e3);
    all[2].ms.push_back(record.latency() * 1e3);
  }
  double least = std::numeric_limits<double>::max(), most = 0;
  for (Series& series : all) {
    if (series.ms.empty()) continue;
    std::sort(series.ms.begin(), series.ms.end());
    // A few gaps of nothing, where tokens come together, must not stretch the axis.
    least = std::min(least, series.ms[series.ms.size() / 100]);
    most = std::max(most, series.ms.back());
  }
  const LogScale scale(most > 0 ? least : 1, most > 0 ? most : 10);
  std::string svg = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:g} {1:g}\" width=\"{0:g}\" "
      "height=\"{1:g}\" font-family=\"system-ui, sans-serif\" font-size=\"12\">\n"
      "<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n"
      "<text x=\"{2:g}\" y=\"24\" font-size=\"15\" fill=\"#0f172a\">{3}</text>\n",
      kWidth, kHeight, kLeft, escaped(title));
  double x = kLeft;
  for (const Series& series : all) {
    svg += fmt::format("<rect x=\"{:.1f}\" y=\"38\" width=\"14\" height=\"4\" fill=\"{}\"/>\n", x,
                       series.color);
    svg += label(x + 20, 45, "start", series.name, "#0f172a");
    x += 190;
  }
  svg += label(kLeft, kTop - 10, "start", "Share of requests, or of tokens, within a time");
  svg += curves(all, scale);
  svg += label(kLeft, kTop + kPanel + kGap - 12, "start", "Each request by its start");
  const double soonest = all[1].ms.empty() ? 1 : all[1].ms.front();
  svg += dots(result, all, LogScale(soonest, most > 0 ? most : 10));
  return svg + "</svg>\n";
}

}  // namespace quern::load
