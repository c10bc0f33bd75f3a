#include "scheduler/answer_length.h"

#include <algorithm>
#include <cmath>

namespace quern::scheduler {
namespace {

// Until answers were seen: SGLang's first share of what is asked for, and its cap of that.
constexpr double kFirstShare = 0.7;
constexpr double kFirstMost = 4096;
constexpr double kEnough = 8;   // answers
constexpr double kMemory = 64;  // answers that the means go back
constexpr double kMostCaution = 8, kCautionDecay = 0.995;

}  // namespace

std::int64_t AnswerLength::remaining(std::int64_t made, std::int64_t most) const {
  const auto asked = static_cast<double>(most), now = static_cast<double>(made);
  const double first = kFirstShare * std::min(asked, kFirstMost);
  const double learned = mean_ + std::sqrt(variance_);
  const double share = std::min(seen_ / kEnough, 1.0);
  const double total = conservativeness_ * caution_ * (share * learned + (1 - share) * first);
  // Who is past the usual length may be past it by far: a quarter more of what there is.
  const double rest = std::max(total - now, conservativeness_ * now / 4);
  return std::min(static_cast<std::int64_t>(std::ceil(std::min(rest, asked))), most - made);
}

void AnswerLength::ended(std::int64_t made) {
  seen_ = std::min(seen_ + 1, kMemory);
  const double distance = static_cast<double>(made) - mean_;
  mean_ += distance / seen_;
  variance_ += (distance * distance * (1 - 1 / seen_) - variance_) / seen_;
}

void AnswerLength::ran_out() { caution_ = std::min(caution_ * 2, kMostCaution); }

void AnswerLength::step() { caution_ = 1 + (caution_ - 1) * kCautionDecay; }

}  // namespace quern::scheduler
