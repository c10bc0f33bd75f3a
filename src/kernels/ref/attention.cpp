// Scalar attention over one block of keys: running softmax, K and V read from packed slabs. The
// definition of what the vector kernels compute. Follows online softmax (Milakov and Gimelshein).

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "kernels/ref/ref_ops.h"

namespace quern::kernels {
namespace {

constexpr float kLog2E = 1.44269504088896340736f;

struct Bf16Slab {
  static float key(const void* slab, std::int64_t, int token, std::int64_t dim) {
    return at(slab, (dim / 2 * kSlab + token) * 2 + dim % 2);
  }
  static float value(const void* slab, std::int64_t stride, int token, std::int64_t dim) {
    return at(slab, (token / 2 * stride + dim) * 2 + token % 2);
  }
  static float at(const void* slab, std::int64_t index) {
    return f32_from_bf16(static_cast<const std::uint16_t*>(slab)[index]);
  }
};

struct F32Slab {
  static float key(const void* slab, std::int64_t, int token, std::int64_t dim) {
    return static_cast<const float*>(slab)[dim * kSlab + token];
  }
  static float value(const void* slab, std::int64_t stride, int token, std::int64_t dim) {
    return static_cast<const float*>(slab)[token * stride + dim];
  }
};

template <typename Slab>
void attend(const AttendArgs& args, int rows) {
  for (int row = 0; row < rows; ++row) {
    const int first = std::max(args.first[row], 0);
    const int last = std::min(args.last[row], args.slabs * kSlab);
    if (first >= last) continue;
    float scores[kKeyBlock];
    float most = args.maximum[row];
    for (int t = first; t < last; ++t) {
      float score = 0.0f;
      for (std::int64_t d = 0; d < args.key_stride; ++d) {
        score = std::fma(args.q[row * args.key_stride + d],
                         Slab::key(args.keys[t / kSlab], args.key_stride, t % kSlab, d), score);
      }
      if (args.soft_cap > 0) score = args.soft_cap * std::tanh(score / args.soft_cap) * kLog2E;
      scores[t] = score;
      most = std::max(most, score);
    }
    const float shrink = std::exp2(args.maximum[row] - most);
    float sum = 0.0f;
    for (int t = first; t < last; ++t) sum += scores[t] = std::exp2(scores[t] - most);
    args.sum[row] = std::fma(args.sum[row], shrink, sum);
    args.maximum[row] = most;
    for (std::int64_t d = 0; d < args.value_stride; ++d) {
      float& out = args.out[row * args.value_stride + d];
      out *= shrink;
      for (int t = first; t < last; ++t) {
        out = std::fma(scores[t],
                       Slab::value(args.values[t / kSlab], args.value_stride, t % kSlab, d), out);
      }
    }
  }
}

}  // namespace

void attend_bf16_ref(const AttendArgs& args, int rows) { attend<Bf16Slab>(args, rows); }
void attend_f32_ref(const AttendArgs& args, int rows) { attend<F32Slab>(args, rows); }

void merge_ref(float* maximum, float* sum, float* out, float other_maximum, float other_sum,
               const float* other_out, std::int64_t dim) {
  const float most = std::max(*maximum, other_maximum);
  const float mine = std::exp2(*maximum - most), theirs = std::exp2(other_maximum - most);
  *maximum = most;
  *sum = std::fma(other_sum, theirs, *sum * mine);
  for (std::int64_t d = 0; d < dim; ++d) out[d] = std::fma(other_out[d], theirs, out[d] * mine);
}

}  // namespace quern::kernels
