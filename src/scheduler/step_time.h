// How long a step will take, from those that were measured: time = fixed + tokens · a + pairs · b,
// fitted anew after each step, times a correction for steps of about that size, since small steps
// are bound by memory and large ones by arithmetic. It decides how much of a prompt goes into a
// step beside the answers of others; it never decides what is computed. Called by the scheduler;
// the engine's thread.
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
  // Seconds, 0 where nothing is known.
  double predict(const StepLoad& load) const { return linear(load) * correction(load); }

 private:
  // Steps of about as many tokens; two buckets an octave.
  struct Bucket {
    double weight = 0;  // up to kMemory
    StepLoad load;      // means
    double seconds = 0;
  };
  // What steps of a size took against the linear prediction.
  struct Correction {
    double size;  // log2 of their tokens
    double factor;
  };

  double linear(const StepLoad& load) const {
    return fixed_ + per_token_ * load.tokens + per_pair_ * load.pairs;
  }
  double correction(const StepLoad& load) const;
  void fit();
  void correct();

  std::array<Bucket, 32> buckets_;
  std::array<Correction, 32> corrections_;  // the first `corrected_`, by size
  std::size_t corrected_ = 0;
  bool known_ = false;
  double fixed_ = 0, per_token_ = 0, per_pair_ = 0;
};

}  // namespace quern::scheduler
