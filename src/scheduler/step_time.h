// How long a step will take, from those that were measured: time = fixed + tokens · a + pairs · b,
// fitted anew after each step. It decides how much of a prompt goes into a step beside the answers
// of others; it never decides what is computed. Called by the scheduler; the engine's thread.
#pragma once

#include <array>
#include <cstdint>

namespace quern::scheduler {

// What a step computes: new tokens, and for each the tokens it attends to.
struct StepLoad {
  double tokens = 0;
  double pairs = 0;

  // Adds `count` tokens behind `context` others.
  void add(std::int64_t context, std::int64_t count) {
    const auto n = static_cast<double>(count);
    tokens += n;
    pairs += n * (static_cast<double>(context) + (n + 1) / 2);
  }
};

class StepTime {
 public:
  // Seconds; what was measured since the start or in other loads long ago counts less.
  void observe(const StepLoad& load, double seconds);

  // Whether steps of different sizes were seen, so that predictions mean something.
  bool known() const { return known_; }
  // Seconds, 0 where nothing is known. Never falls with more tokens or pairs.
  double predict(const StepLoad& load) const {
    return fixed_ + per_token_ * load.tokens + per_pair_ * load.pairs;
  }

 private:
  // Steps of about as many tokens; two buckets an octave.
  struct Bucket {
    double weight = 0;  // up to kMemory
    StepLoad load;      // means
    double seconds = 0;
  };
  void fit();

  std::array<Bucket, 32> buckets_;
  bool known_ = false;
  double fixed_ = 0, per_token_ = 0, per_pair_ = 0;
};

}  // namespace quern::scheduler
