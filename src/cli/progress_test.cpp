#include "cli/progress.h"

#include <gtest/gtest.h>

#include <vector>

namespace quern::cli {
namespace {

using std::chrono::milliseconds;

// What is shown of a load that reports every `step` and needs `duration` in all.
std::vector<int> shown(milliseconds interval, milliseconds step, milliseconds duration) {
  const ProgressPace::Time start{milliseconds(5'000'000)};
  ProgressPace pace(interval, start);
  std::vector<int> percents;
  for (milliseconds at = step; at <= duration; at += step) {
    if (const auto percent = pace.next(at.count(), duration.count(), start + at)) {
      percents.push_back(*percent);
    }
  }
  return percents;
}

TEST(ProgressPace, ShowsALineInEveryInterval) {
  EXPECT_EQ(shown(milliseconds(2000), milliseconds(10), milliseconds(10'000)),
            (std::vector{20, 40, 60, 80, 100}));
  EXPECT_EQ(shown(milliseconds(2000), milliseconds(1500), milliseconds(9000)),
            (std::vector{33, 66, 100}));
}

TEST(ProgressPace, ShowsNothingOfAQuickLoad) {
  EXPECT_TRUE(shown(milliseconds(2000), milliseconds(10), milliseconds(1990)).empty());
}

TEST(ProgressPace, ShowsEachPercentageOnce) {
  EXPECT_EQ(shown(milliseconds(0), milliseconds(1), milliseconds(5000)).size(), 101u);
  // Slower than a percentage in an interval.
  EXPECT_EQ(shown(milliseconds(2000), milliseconds(100), milliseconds(1'000'000)).size(), 101u);
}

TEST(ProgressPace, KeepsWithinBounds) {
  const ProgressPace::Time start{};
  ProgressPace pace(milliseconds(0), start);
  EXPECT_FALSE(pace.next(1, 0, start));
  EXPECT_EQ(pace.next(-5, 10, start), 0);
  EXPECT_EQ(pace.next(11, 10, start), 100);
  EXPECT_FALSE(pace.next(5, 10, start));
}

}  // namespace
}  // namespace quern::cli
