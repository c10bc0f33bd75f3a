// Scalar latent attention over one block of rows, and how its operands are packed: the definition
// of what the vector kernels compute.

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/dtype.h"
#include "kernels/ref/ref_ops.h"

namespace quern::kernels {
namespace {

float at(const float* row, std::int64_t d) { return row[d]; }
float at(const std::uint16_t* row, std::int64_t d) { return f32_from_bf16(row[d]); }
float at(const std::uint8_t* row, std::int64_t d) { return f32_from_f8_e4m3(row[d]); }

template <typename Element>
void attend_lane(const LatentArgs& args, int group, int lane) {
  const int state = group * kLanes + lane;
  const int last = std::min(args.last[state], args.keys);
  if (last <= 0) return;
  const auto row = [&](int t) { return static_cast<const Element*>(args.rows[t]); };
  const auto* q = reinterpret_cast<const float*>(args.q + group * lane_bytes(args.row_dim)) + lane;
  float scores[kKeyBlock];
  float most = args.maximum[state];
  for (int t = 0; t < last; ++t) {
    float score = 0.0f;
    for (std::int64_t d = 0; d < args.row_dim; ++d) {
      score = std::fma(q[d * kLanes], at(row(t), d), score);
    }
    scores[t] = score;
    most = std::max(most, score);
  }
  const float shrink = std::exp2(args.maximum[state] - most);
  float sum = 0.0f;
  for (int t = 0; t < last; ++t) sum += scores[t] = std::exp2(scores[t] - most);
  args.sum[state] = std::fma(args.sum[state], shrink, sum);
  args.maximum[state] = most;
  for (std::int64_t d = 0; d < args.latent_dim; ++d) {
    float& out = args.out[(group * latent_columns(args.latent_dim) + d) * kLanes + lane];
    out *= shrink;
    for (int t = 0; t < last; ++t) out = std::fma(scores[t], at(row(t), d), out);
  }
}

template <typename Element>
void attend(const LatentArgs& args) {
  for (int group = 0; group < args.groups; ++group) {
    for (int lane = 0; lane < kLanes; ++lane) attend_lane<Element>(args, group, lane);
  }
}

void put(std::byte* out, std::int64_t index, float x) {
  const std::uint16_t bits = bf16_from_f32(x);
  std::memcpy(out + 2 * index, &bits, 2);
}

}  // namespace

void attend_latent_bf16_ref(const LatentArgs& args) { attend<std::uint16_t>(args); }
void attend_latent_f32_ref(const LatentArgs& args) { attend<float>(args); }
void attend_latent_f8_ref(const LatentArgs& args) { attend<std::uint8_t>(args); }

void merge_lanes_ref(float* maximum, float* sum, float* out, const float* other_maximum,
                     const float* other_sum, const float* other_out, std::int64_t columns) {
  for (int lane = 0; lane < kLanes; ++lane) {
    if (other_sum[lane] == 0.0f) continue;  // this lane saw no key there
    const float most = std::max(maximum[lane], other_maximum[lane]);
    const float mine = std::exp2(maximum[lane] - most);
    const float theirs = std::exp2(other_maximum[lane] - most);
    maximum[lane] = most;
    sum[lane] = std::fma(other_sum[lane], theirs, sum[lane] * mine);
    for (std::int64_t i = lane; i < columns * kLanes; i += kLanes) {
      out[i] = std::fma(other_out[i], theirs, out[i] * mine);
    }
  }
}

void pack_lanes_bf16_ref(const float* x, std::int64_t stride, int lanes, std::int64_t dim,
                         float factor, std::byte* out) {
  for (std::int64_t d = 0; d < (dim + 1) / 2 * 2; ++d) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      const bool there = lane < lanes && d < dim;
      put(out, (d / 2 * kLanes + lane) * 2 + d % 2, there ? x[lane * stride + d] * factor : 0.0f);
    }
  }
}

void pack_lanes_f32_ref(const float* x, std::int64_t stride, int lanes, std::int64_t dim,
                        float factor, std::byte* out) {
  auto* to = reinterpret_cast<float*>(out);
  for (std::int64_t d = 0; d < dim; ++d) {
    for (std::int64_t lane = 0; lane < kLanes; ++lane) {
      to[d * kLanes + lane] = lane < lanes ? x[lane * stride + d] * factor : 0.0f;
    }
  }
}

void pack_values_bf16_ref(const float* x, std::int64_t stride, int tokens, std::int64_t dim,
                          std::int64_t value_stride, std::byte* out) {
  for (std::int64_t t = 0; t < kSlab; ++t) {
    for (std::int64_t d = 0; d < value_stride; ++d) {
      const bool there = t < tokens && d < dim;
      put(out, (t / 2 * value_stride + d) * 2 + t % 2, there ? x[t * stride + d] : 0.0f);
    }
  }
}

}  // namespace quern::kernels
