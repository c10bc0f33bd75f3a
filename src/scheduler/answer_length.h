// How long answers get, learned from those that ended. Admission reserves pages by it in place of
// the worst case: a request may ask for 4096 tokens and end after 50. Called by the scheduler; the
// engine's thread.
#pragma once

#include <cstdint>

namespace quern::scheduler {

class AnswerLength {
 public:
  // `conservativeness` (--schedule-conservativeness) multiplies what is expected.
  explicit AnswerLength(double conservativeness) : conservativeness_(conservativeness) {}

  // Tokens that an answer of `made` so far and `most` at the end is expected to get still; at most
  // most - made.
  std::int64_t remaining(std::int64_t made, std::int64_t most) const;

  // An answer ended after `made` tokens.
  void ended(std::int64_t made);
  // Pages ran out: more is reserved for a while, so that it does not happen again at once.
  void ran_out();
  // A step went by.
  void step();

 private:
  double conservativeness_;
  double caution_ = 1;  // what ran_out() adds and steps take away
  double seen_ = 0;     // answers that the means stand for
  double mean_ = 0, variance_ = 0;
};

}  // namespace quern::scheduler
