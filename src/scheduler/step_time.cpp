#include "scheduler/step_time.h"

#include <algorithm>
#include <cmath>

namespace quern::scheduler {
namespace {

constexpr double kMemory = 16;   // steps that a bucket's mean goes back
constexpr double kOutlier = 3;   // a step that lost its processor counts no more than this
constexpr double kRidge = 1e-6;  // relative: loads that grew together have one cause, not two
constexpr double kEnough = 3;    // steps of a bucket whose mean is believed
constexpr double kLeastFactor = 0.5, kMostFactor = 2;
constexpr double kTokenScale = 64, kPairScale = 65536;

using Row = std::array<double, 4>;  // three coefficients and the right side

// Solves three normal equations for the unknowns in `use`; the others are 0.
std::array<double, 3> solve(const std::array<Row, 3>& equations, std::array<bool, 3> use) {
  std::array<Row, 3> m = equations;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = 0; j < 3; ++j) {
      if (!use[i] || !use[j]) m[i][j] = i == j ? 1 : 0;
    }
    if (!use[i]) m[i][3] = 0;
  }
  // Positive definite through the ridge, so no pivoting is needed.
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t j = i + 1; j < 3; ++j) {
      const double factor = m[j][i] / m[i][i];
      for (std::size_t k = i; k < 4; ++k) m[j][k] -= factor * m[i][k];
    }
  }
  std::array<double, 3> x{};
  for (std::size_t i = 3; i-- > 0;) {
    double rest = m[i][3];
    for (std::size_t j = i + 1; j < 3; ++j) rest -= m[i][j] * x[j];
    x[i] = rest / m[i][i];
  }
  return x;
}

}  // namespace

void StepTime::observe(const StepLoad& load, double seconds) {
  if (load.tokens < 1 || !(seconds > 0)) return;
  const auto place = static_cast<std::size_t>(2 * std::log2(load.tokens));
  Bucket& bucket = buckets_[std::min(place, buckets_.size() - 1)];
  if (bucket.weight >= kEnough) seconds = std::min(seconds, kOutlier * bucket.seconds);
  bucket.weight = std::min(bucket.weight + 1, kMemory);
  const double share = 1 / bucket.weight;
  bucket.load.tokens += share * (load.tokens - bucket.load.tokens);
  bucket.load.pairs += share * (load.pairs - bucket.load.pairs);
  bucket.seconds += share * (seconds - bucket.seconds);
  fit();
}

// Least squares over the buckets' means, of relative errors: a decode of 5 ms must be right to a
// millisecond where a prefill of 500 ms need not. What would be negative is left out.
void StepTime::fit() {
  std::array<Row, 3> equations{};
  int seen = 0;
  for (const Bucket& bucket : buckets_) {
    if (bucket.weight == 0) continue;
    ++seen;
    const std::array<double, 3> x = {1, bucket.load.tokens / kTokenScale,
                                     bucket.load.pairs / kPairScale};
    const double weight = bucket.weight / (bucket.seconds * bucket.seconds);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t j = 0; j < 3; ++j) equations[i][j] += weight * x[i] * x[j];
      equations[i][3] += weight * x[i] * bucket.seconds;
    }
  }
  for (std::size_t i = 0; i < 3; ++i) equations[i][i] *= 1 + kRidge;
  for (std::size_t i = 0; i < 3; ++i) equations[i][i] += 1e-12;
  std::array<bool, 3> use = {true, true, true};
  std::array<double, 3> x = solve(equations, use);
  for (int round = 0; round < 3; ++round) {
    const auto least = static_cast<std::size_t>(std::min_element(x.begin(), x.end()) - x.begin());
    if (x[least] >= 0) break;
    use[least] = false;
    x = solve(equations, use);
  }
  fixed_ = std::max(x[0], 0.0);
  per_token_ = std::max(x[1], 0.0) / kTokenScale;
  per_pair_ = std::max(x[2], 0.0) / kPairScale;
  known_ = seen >= 2;
  correct();
}

void StepTime::correct() {
  corrected_ = 0;
  for (const Bucket& bucket : buckets_) {
    const double expected = linear(bucket.load);
    if (bucket.weight < kEnough || expected <= 0) continue;
    corrections_[corrected_++] = {std::log2(bucket.load.tokens),
                                  std::clamp(bucket.seconds / expected, kLeastFactor, kMostFactor)};
  }
}

// Between sizes that were seen it goes over smoothly; beyond them the last one stays.
double StepTime::correction(const StepLoad& load) const {
  if (corrected_ == 0) return 1;
  const double size = std::log2(std::max(load.tokens, 1.0));
  std::size_t above = 0;
  while (above < corrected_ && corrections_[above].size < size) ++above;
  if (above == 0) return corrections_[0].factor;
  if (above == corrected_) return corrections_[corrected_ - 1].factor;
  const Correction &low = corrections_[above - 1], &high = corrections_[above];
  const double share = (size - low.size) / (high.size - low.size);
  return low.factor + share * (high.factor - low.factor);
}

}  // namespace quern::scheduler
