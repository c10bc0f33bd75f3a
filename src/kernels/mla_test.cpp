#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "core/dtype.h"
#include "kernels/aligned_buffer.h"
#include "kernels/dispatch.h"
#include "kernels/test_random.h"

namespace quern::kernels {

#if defined(QUERN_HAS_SIMDE)
void attend_latent_bf16_avx512_simde(const LatentArgs&);
void attend_latent_f8_avx512_simde(const LatentArgs&);
void pack_lanes_bf16_avx512_simde(const float*, std::int64_t, int, std::int64_t, float, std::byte*);
void pack_values_bf16_avx512_simde(const float*, std::int64_t, int, std::int64_t, std::int64_t,
                                   std::byte*);
#endif

namespace {

struct Table : Ops {
  bool rounds = isa == Isa::kAvx512;  // queries and probabilities to bf16
};

// Every table that can run here, the AVX-512 one also on SIMDe.
std::vector<Table> tables() {
  std::vector<Table> all = {{kRefOps}};
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (const Ops* table = ops_for(isa)) all.push_back({*table});
  }
#if defined(QUERN_HAS_SIMDE)
  if (const Ops* avx2 = ops_for(Isa::kAvx2)) {
    Table table{*avx2, true};
    table.name = "AVX-512 on SIMDe";
    table.latent[0] = {pack_lanes_bf16_avx512_simde, attend_latent_bf16_avx512_simde};
    table.latent[2] = {pack_lanes_bf16_avx512_simde, attend_latent_f8_avx512_simde};
    table.pack_keys_bf16 = pack_lanes_bf16_avx512_simde;
    table.pack_values_bf16 = pack_values_bf16_avx512_simde;
    all.push_back(table);
  }
#endif
  return all;
}

struct Shape {
  std::int64_t row_dim, latent_dim;
};
constexpr Shape kShapes[] = {{576, 512}, {80, 64}, {37, 20}};
constexpr std::string_view kTypes[] = {"bf16", "f32", "fp8_e4m3"};

// The rows of one block in a type, each somewhere of its own.
class Rows {
 public:
  Rows(const Shape& shape, int type, unsigned seed) : stride_(shape.row_dim * 4 + 12) {
    const auto values = random_floats(kKeyBlock * shape.row_dim, seed);
    bytes_.resize(static_cast<size_t>(kKeyBlock * stride_));
    for (std::int64_t t = 0; t < kKeyBlock; ++t) {
      std::byte* row = bytes_.data() + (kKeyBlock - 1 - t) * stride_;
      rows_.push_back(row);
      for (std::int64_t d = 0; d < shape.row_dim; ++d) {
        put(row, type, d, values[static_cast<size_t>(t * shape.row_dim + d)]);
      }
    }
  }
  static void put(std::byte* row, int type, std::int64_t d, float value) {
    const std::uint16_t half = bf16_from_f32(value);
    const std::uint8_t byte = f8_e4m3_from_f32(value);
    if (type == 0) std::memcpy(row + 2 * d, &half, 2);
    if (type == 1) std::memcpy(row + 4 * d, &value, 4);
    if (type == 2) std::memcpy(row + d, &byte, 1);
  }
  const void* const* data() const { return rows_.data(); }
  std::byte* row(int t) { return bytes_.data() + (kKeyBlock - 1 - t) * stride_; }

 private:
  std::int64_t stride_;
  std::vector<std::byte> bytes_;
  std::vector<const void*> rows_;
};

struct State {
  State(int groups, const Shape& shape)
      : maximum(static_cast<size_t>(groups * kLanes), -std::numeric_limits<float>::infinity()),
        sum(maximum.size()),
        out(maximum.size() * static_cast<size_t>(latent_columns(shape.latent_dim))) {}
  std::vector<float> maximum, sum, out;

  float column(const Shape& shape, std::int64_t lane, std::int64_t d) const {
    const std::int64_t group = lane / kLanes;
    return out[static_cast<size_t>((group * latent_columns(shape.latent_dim) + d) * kLanes +
                                   lane % kLanes)];
  }
};

void attend(const Table& table, int type, const Shape& shape, const Rows& rows, int keys,
            const std::vector<float>& q, const std::vector<std::int32_t>& last, State& state,
            const Rows* next = nullptr) {
  const int lanes = static_cast<int>(last.size()), groups = (lanes + kLanes - 1) / kLanes;
  const std::int64_t bytes = lane_bytes(shape.row_dim);
  AlignedBuffer packed(groups * bytes), scratch(latent_scratch_bytes(shape.row_dim));
  std::vector<std::int32_t> padded = last;
  padded.resize(static_cast<size_t>(groups * kLanes));
  for (int group = 0; group < groups; ++group) {
    table.latent[type].pack(q.data() + group * kLanes * shape.row_dim, shape.row_dim,
                            std::min(kLanes, lanes - group * kLanes), shape.row_dim, 0.5f,
                            packed.data() + group * bytes);
  }
  table.latent[type].attend({.rows = rows.data(),
                             .next = next ? next->data() : nullptr,
                             .keys = keys,
                             .groups = groups,
                             .row_dim = shape.row_dim,
                             .latent_dim = shape.latent_dim,
                             .q = packed.data(),
                             .last = padded.data(),
                             .maximum = state.maximum.data(),
                             .sum = state.sum.data(),
                             .out = state.out.data(),
                             .scratch = scratch.data()});
}

TEST(LatentAttention, VectorKernelsMatchTheReference) {
  for (const Shape& shape : kShapes) {
    const float size = 4.0f / std::sqrt(static_cast<float>(shape.row_dim));
    const auto q = random_floats(40 * shape.row_dim, 9, size);
    for (int type = 0; type < kLatentTypes; ++type) {
      const Rows a(shape, type, 1), b(shape, type, 2);
      for (const int keys : {1, 7, 33, 64}) {
        for (const int lanes : {1, 16, 40}) {
          // Edges as in the middle of a prompt: each lane sees another number of keys, one none.
          std::vector<std::int32_t> all(static_cast<size_t>(lanes), 64), edge(all);
          for (size_t i = 0; i < edge.size(); ++i) {
            edge[i] = static_cast<std::int32_t>(i * 2) - 4;
          }
          State expected(3, shape);
          attend({kRefOps}, type, shape, a, 64, q, all, expected);
          attend({kRefOps}, type, shape, b, keys, q, edge, expected);
          for (const Table& table : tables()) {
            State state(3, shape);
            attend(table, type, shape, a, 64, q, all, state, &b);
            attend(table, type, shape, b, keys, q, edge, state);
            const float rounding = type != 1 && table.rounds ? 0x1p-6f : 1e-4f;
            for (int lane = 0; lane < lanes; ++lane) {
              const float sum = expected.sum[static_cast<size_t>(lane)];
              ASSERT_NEAR(state.sum[static_cast<size_t>(lane)], sum, rounding * sum)
                  << table.name << " " << kTypes[type] << " " << keys << " keys, lane " << lane;
              for (std::int64_t d = 0; d < shape.latent_dim; ++d) {
                ASSERT_NEAR(state.column(shape, lane, d), expected.column(shape, lane, d),
                            rounding * (1 + sum))
                    << table.name << " " << kTypes[type] << " " << keys << " keys, lane " << lane
                    << " column " << d;
              }
            }
          }
        }
      }
    }
  }
}

// Every lane by itself, in another place of its group, and with no rows behind its last.
TEST(LatentAttention, ALanesBitsDoNotDependOnTheLanesBesideIt) {
  for (const Shape& shape : kShapes) {
    const auto q = random_floats(40 * shape.row_dim, 4, 0.1f);
    std::vector<std::int32_t> last;
    for (int lane = 0; lane < 40; ++lane) last.push_back(lane == 5 ? 0 : lane * 7 % 65);
    for (int type = 0; type < kLatentTypes; ++type) {
      const Rows a(shape, type, 1), b(shape, type, 2);
      for (const Table& table : tables()) {
        State together(3, shape);
        attend(table, type, shape, a, 64, q, std::vector<std::int32_t>(40, 64), together);
        attend(table, type, shape, b, 64, q, last, together);
        for (size_t lane = 0; lane < 40; lane += 3) {
          const std::vector<float> own(
              q.begin() + static_cast<std::ptrdiff_t>(lane) * shape.row_dim,
              q.begin() + static_cast<std::ptrdiff_t>(lane + 1) * shape.row_dim);
          State alone(1, shape);
          attend(table, type, shape, a, 64, own, {64}, alone);
          if (last[lane] > 0) attend(table, type, shape, b, last[lane], own, {64}, alone);
          EXPECT_EQ(alone.sum[0], together.sum[lane]) << table.name << " " << lane;
          for (std::int64_t d = 0; d < shape.latent_dim; ++d) {
            ASSERT_EQ(alone.column(shape, 0, d),
                      together.column(shape, static_cast<std::int64_t>(lane), d))
                << table.name << " " << kTypes[type] << " " << lane << " " << d;
          }
        }
      }
    }
  }
}

TEST(LatentAttention, MergeEqualsOnePassOverBothBlocks) {
  const Shape shape = kShapes[1];
  const auto q = random_floats(kLanes * shape.row_dim, 4, 0.3f);
  const std::vector<std::int32_t> all(kLanes, 64),
      few = {0, 3, 9, 64, 0, 20, 30, 40, 64, 1, 2, 3, 4, 5, 6, 7};
  const Rows a(shape, 1, 1), b(shape, 1, 2);
  for (const Table& table : tables()) {
    State one(1, shape), left(1, shape), right(1, shape), none(1, shape);
    attend(table, 1, shape, a, 64, q, all, one);
    attend(table, 1, shape, b, 64, q, few, one);
    attend(table, 1, shape, a, 64, q, all, left);
    attend(table, 1, shape, b, 64, q, few, right);
    table.merge_lanes(none.maximum.data(), none.sum.data(), none.out.data(), left.maximum.data(),
                      left.sum.data(), left.out.data(), latent_columns(shape.latent_dim));
    EXPECT_EQ(none.out, left.out) << table.name;  // into nothing: as it is
    table.merge_lanes(left.maximum.data(), left.sum.data(), left.out.data(), right.maximum.data(),
                      right.sum.data(), right.out.data(), latent_columns(shape.latent_dim));
    for (int lane = 0; lane < kLanes; ++lane) {
      EXPECT_NEAR(left.sum[static_cast<size_t>(lane)], one.sum[static_cast<size_t>(lane)], 1e-4f);
      for (std::int64_t d = 0; d < shape.latent_dim; ++d) {
        EXPECT_NEAR(left.column(shape, lane, d), one.column(shape, lane, d), 2e-4f) << table.name;
      }
    }
  }
}

TEST(LatentAttention, ANanRowShowsInTheResult) {
  const Shape shape = kShapes[0];
  const auto q = random_floats(kLanes * shape.row_dim, 4, 0.1f);
  for (int type = 0; type < kLatentTypes; ++type) {
    Rows rows(shape, type, 1);
    Rows::put(rows.row(3), type, 17, std::nanf(""));
    for (const Table& table : tables()) {
      State state(1, shape);
      attend(table, type, shape, rows, 64, q, std::vector<std::int32_t>(kLanes, 64), state);
      EXPECT_TRUE(std::isnan(state.sum[0])) << table.name << " " << kTypes[type];
    }
  }
}

// What is packed for the kernels of expanded keys and values: the vector forms write the same
// bytes.
TEST(LatentAttention, SlabsArePackedToTheSameBytes) {
  const auto x = random_floats(16 * 200, 3);
  for (const Table& table : tables()) {
    for (const std::int64_t dim : {192, 128, 36, 21}) {
      for (const int tokens : {16, 5}) {
        const std::int64_t stride = (dim + 15) / 16 * 16;
        const auto packed = [&](const Ops& ops, bool keys) {
          std::vector<std::byte> bytes(static_cast<size_t>(stride * kSlab * 2));
          if (keys) ops.pack_keys_bf16(x.data(), 200, tokens, dim, 0.7f, bytes.data());
          if (!keys) ops.pack_values_bf16(x.data(), 200, tokens, dim, stride, bytes.data());
          return bytes;
        };
        EXPECT_EQ(packed(table, true), packed(kRefOps, true)) << table.name << " " << dim;
        EXPECT_EQ(packed(table, false), packed(kRefOps, false)) << table.name << " " << dim;
      }
    }
  }
}

}  // namespace
}  // namespace quern::kernels
