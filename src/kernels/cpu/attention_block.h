// What the vector kernels of one attention block share: which keys any row sees, and the running
// softmax of a row. Only for files built with at least the AVX2 flags.
#pragma once

#include "kernels/cpu/avx2_math.h"
#include "kernels/ops.h"

namespace quern::kernels {
namespace {

constexpr float kLog2E = 1.44269504088896340736f;
constexpr float kMinusInfinity = -__builtin_inff();

// The slabs [begin, end) of a block that some row sees.
struct Slabs {
  int begin, end;
};

QUERN_INLINE Slabs visible_slabs(const AttendArgs& args, int rows) {
  int first = args.slabs * kSlab, last = 0;
  for (int r = 0; r < rows; ++r) {
    if (args.first[r] >= args.last[r]) continue;
    if (args.first[r] < first) first = args.first[r] > 0 ? args.first[r] : 0;
    if (args.last[r] > last) last = args.last[r];
  }
  if (first >= last) return {0, 0};
  return {first / kSlab, (last + kSlab - 1) / kSlab};
}

// Turns a row's scores of keys [begin, end) into probabilities; returns what the old result shrinks
// by. Keys outside [first, last) are masked.
QUERN_INLINE float softmax_row(float* scores, int begin, int end, int first, int last,
                               float soft_cap, float* maximum, float* sum) {
  if (first < begin) first = begin;
  if (first >= last) {
    for (int t = begin; t < end; ++t) scores[t] = 0.0f;
    return 1.0f;
  }
  if (soft_cap > 0) {
    for (int t = begin; t < end; ++t) {
      scores[t] = soft_cap * __builtin_tanhf(scores[t] / soft_cap) * kLog2E;
    }
  }
  for (int t = begin; t < first; ++t) scores[t] = kMinusInfinity;
  for (int t = last; t < end; ++t) scores[t] = kMinusInfinity;
  __m256 most = _mm256_set1_ps(*maximum);
  for (int t = begin; t < end; t += 8) most = _mm256_max_ps(most, _mm256_load_ps(scores + t));
  const float top = avx2_horizontal_max(most);
  __m256 total = _mm256_setzero_ps();
  for (int t = begin; t < end; t += 8) {
    const __m256 p = avx2_exp2(_mm256_sub_ps(_mm256_load_ps(scores + t), _mm256_set1_ps(top)));
    total = _mm256_add_ps(total, p);
    _mm256_store_ps(scores + t, p);
  }
  const float shrink = avx2_exp2_one(*maximum - top);
  *maximum = top;
  *sum = __builtin_fmaf(*sum, shrink, avx2_horizontal_sum(total));
  return shrink;
}

}  // namespace
}  // namespace quern::kernels
