#include "kernels/matmul.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "kernels/cpu/avx512_ops.h"
#include "kernels/decode_blocks.h"
#include "kernels/dispatch.h"
#include "kernels/ref/ref_ops.h"
#include "kernels/test_random.h"
#include "kernels/test_stored.h"

namespace quern::kernels {

#if defined(QUERN_HAS_SIMDE)
void prepare_bf16_avx512_simde(const float*, std::int64_t, std::int64_t, std::byte*, std::int64_t);
void multiply_bf16_avx512_simde(const MatmulArgs&);
void multiply_q4_avx512_simde(const MatmulArgs&);
void multiply_q8_avx512_simde(const MatmulArgs&);
void multiply_q8sub_avx512_simde(const MatmulArgs&);
void multiply_q5_avx512_simde(const MatmulArgs&);
void multiply_q6_avx512_simde(const MatmulArgs&);
#endif

namespace {

Arena arena;  // of all packed matrices

// Every table that can run here, the AVX-512 one also on SIMDe.
std::vector<Ops> tables() {
  std::vector<Ops> all = {kRefOps};
  for (Isa isa : {Isa::kAvx2, Isa::kAvx512}) {
    if (const Ops* table = ops_for(isa)) all.push_back(*table);
  }
#if defined(QUERN_HAS_SIMDE)
  Ops simde = kRefOps;
  simde.name = "avx512 on SIMDe";
  simde.prepare[1] = prepare_bf16_avx512_simde;
  simde.multiply[2] = multiply_bf16_avx512_simde;
  simde.multiply[3] = multiply_q4_avx512_simde;
  simde.multiply[4] = multiply_q8_avx512_simde;
  simde.multiply[5] = multiply_q8sub_avx512_simde;
  simde.multiply[6] = multiply_q5_avx512_simde;
  simde.multiply[7] = multiply_q6_avx512_simde;
  all.push_back(simde);
#endif
  return all;
}

std::vector<float> run(const Ops& table, const PackedMatrix& weights, const std::vector<float>& x,
                       std::int64_t rows) {
  const ActivationKind kind = activation_of(weights.format);
  const std::int64_t stride = activation_row_bytes(kind, weights.k);
  std::vector<std::byte> activations(static_cast<size_t>(rows * stride));
  table.prepare[static_cast<size_t>(kind)](x.data(), rows, weights.k, activations.data(), stride);
  std::vector<float> out(static_cast<size_t>(rows * weights.outputs), -1e30f);
  table.multiply[static_cast<size_t>(weights.format)]({.weights = weights.data.data(),
                                                       .panel_bytes = weights.panel_bytes,
                                                       .activations = activations.data(),
                                                       .activation_stride = stride,
                                                       .rows = rows,
                                                       .k = weights.k,
                                                       .panel_begin = 0,
                                                       .panel_end = weights.panels(),
                                                       .outputs = weights.outputs,
                                                       .out = out.data(),
                                                       .out_stride = weights.outputs});
  return out;
}

// How far the product may be from exact arithmetic on the decoded weights, relative to Σ|x·w|:
// activations of int8 lose half a step of 1/127 of the block's largest, bf16 half of 2^-8.
float rounding_of(ActivationKind kind) {
  return kind == ActivationKind::kInt8 ? 0.01f : kind == ActivationKind::kBF16 ? 0.004f : 1e-5f;
}

TEST(Matmul, MatchesExactArithmeticForEveryStoredType) {
  ThreadPool pool(2);
  for (DType type : kAllTypes) {
    const std::int64_t k = dtype_info(type).block_size == 256 ? 512 : 96, n = 37, rows = 3;
    const Stored stored(type, n, k, 7);
    const auto x = random_floats(rows * k, 11);
    for (PackMode mode : {PackMode::kKeep, PackMode::kF32, PackMode::kBF16}) {
      const PackedMatrix packed = pack(stored.view(), mode, pool, arena);
      for (const Ops& table : tables()) {
        const auto out = run(table, packed, x, rows);
        std::vector<float> weights(static_cast<size_t>(k));
        for (std::int64_t o = 0; o < n; ++o) {
          decode_row(stored.view(), o, weights.data());
          for (std::int64_t r = 0; r < rows; ++r) {
            double exact = 0, size = 0;
            for (std::int64_t i = 0; i < k; ++i) {
              const double product = double{x[r * k + i]} * weights[i];
              exact += product;
              size += std::fabs(product);
            }
            const float bound = rounding_of(activation_of(packed.format)) +
                                (mode == PackMode::kBF16 ? 0.004f : 0.0f);
            EXPECT_NEAR(out[r * n + o], exact, bound * size)
                << table.name << " " << name_of(type) << " row " << r << " output " << o;
          }
        }
      }
    }
  }
}

// Integer and f32-accumulating formats have one order of float operations on every instruction
// set: the same bits. vdpbf16ps alone rounds otherwise.
TEST(Matmul, EveryTableGivesTheReferenceBits) {
  ThreadPool pool(1);
  for (DType type : kAllTypes) {
    const std::int64_t k = dtype_info(type).block_size == 256 ? 256 : 160;
    const Stored stored(type, 50, k, 3);
    const PackedMatrix packed = pack(stored.view(), PackMode::kKeep, pool, arena);
    const auto x = random_floats(5 * k, 5);
    const auto expected = run(kRefOps, packed, x, 5);
    for (const Ops& table : tables()) {
      const auto out = run(table, packed, x, 5);
      const bool rounds_otherwise = packed.format == WeightFormat::kBF16 &&
                                    std::string(table.name).find("avx512") != std::string::npos;
      for (size_t i = 0; i < out.size(); ++i) {
        if (rounds_otherwise) {
          EXPECT_NEAR(out[i], expected[i], 1e-4f) << table.name << " " << name_of(type);
        } else {
          EXPECT_EQ(out[i], expected[i]) << table.name << " " << name_of(type) << " at " << i;
        }
      }
    }
  }
}

TEST(Matmul, ARowsBitsDoNotDependOnTheRowsBesideIt) {
  ThreadPool one(1), three(3);
  for (DType type : kAllTypes) {
    const std::int64_t k = 256, n = 70, rows = 141;
    const Stored stored(type, n, k, 9);
    const PackedMatrix packed = pack(stored.view(), PackMode::kKeep, three, arena);
    const auto x = random_floats(rows * k, 13);
    Matmul alone(one, 1, k), together(three, rows, k);
    std::vector<float> all(static_cast<size_t>(rows * n)), single(static_cast<size_t>(n));
    const MatmulTarget both[] = {{&packed, all.data()}};
    together(x.data(), rows, both);
    for (std::int64_t r : {0L, 1L, 3L, 64L, 127L, 128L, 138L, 140L}) {
      const MatmulTarget target[] = {{&packed, single.data()}};
      alone(x.data() + r * k, 1, target);
      EXPECT_EQ(0, std::memcmp(single.data(), &all[static_cast<size_t>(r * n)], 4 * 70))
          << name_of(type) << " row " << r;
    }
  }
}

// Rows and outputs that no tile divides, odd numbers of inputs where the format allows them, no
// rows at all: every element is right, and nothing beside them is written.
TEST(Matmul, ShapesThatNoTileDivides) {
  ThreadPool pool(2);
  constexpr std::int64_t kMostRows = 70;
  for (DType type : kAllTypes) {
    const DTypeInfo& info = dtype_info(type);
    for (const std::int64_t n : {1, 15, 33}) {
      const std::int64_t k = info.quantised() ? info.block_size : 17;
      const Stored stored(type, n, k, 21);
      const PackedMatrix packed = pack(stored.view(), PackMode::kKeep, pool, arena);
      const auto x = random_floats(kMostRows * k, 22);
      const auto expected = run(kRefOps, packed, x, kMostRows);
      Matmul matmul(pool, kMostRows, k);
      for (std::int64_t rows = 0; rows <= kMostRows; ++rows) {
        std::vector<float> out(static_cast<size_t>((rows + 1) * n), -7.0f);
        const MatmulTarget target[] = {{&packed, out.data()}};
        matmul(x.data(), rows, target);
        for (size_t i = 0; i < static_cast<size_t>(rows * n); ++i) {
          ASSERT_NEAR(out[i], expected[i], 1e-3f) << name_of(type) << ' ' << rows << 'x' << n;
        }
        for (size_t i = static_cast<size_t>(rows * n); i < out.size(); ++i)
          ASSERT_EQ(out[i], -7.0f);
      }
    }
  }
}

TEST(Matmul, ANanStaysInItsRow) {
  ThreadPool pool(2);
  for (DType type : {DType::kF32, DType::kBF16, DType::kQ4_1, DType::kQ8_0, DType::kQ6_K}) {
    const Stored stored(type, 20, 256, 1);
    const PackedMatrix packed = pack(stored.view(), PackMode::kKeep, pool, arena);
    auto x = random_floats(3 * 256, 2);
    x[256 + 40] = NAN;
    for (const Ops& table : tables()) {
      const auto out = run(table, packed, x, 3);
      for (int o = 0; o < 20; ++o) {
        EXPECT_TRUE(std::isfinite(out[o]) && std::isfinite(out[40 + o])) << table.name;
        EXPECT_TRUE(std::isnan(out[20 + o])) << table.name << " " << name_of(type);
      }
    }
  }
}

TEST(UnpackRow, GivesWhatWasPacked) {
  ThreadPool pool(2);
  for (DType type : kAllTypes) {
    const Stored stored(type, 35, 256, 21);
    const PackedMatrix packed = pack(stored.view(), PackMode::kKeep, pool, arena);
    std::vector<float> expected(256), out(256);
    for (std::int64_t row : {0, 17, 34}) {
      decode_row(stored.view(), row, expected.data());
      unpack_row(packed, row, out.data());
      // K-quants' scales and minima become halves.
      float largest = 1e-2f;
      for (float value : expected) largest = std::max(largest, std::fabs(value));
      const float halves = dtype_info(type).block_size == 256 ? 0x1p-10f * largest : 0.0f;
      for (size_t k = 0; k < 256; ++k) {
        EXPECT_NEAR(out[k], expected[k], 1e-5f * (1e-2f + std::fabs(expected[k])) + halves)
            << name_of(type);
      }
    }
  }
}

TEST(Pack, LargeQ4ScalesDoNotOverflowTheMinimum) {
  ThreadPool pool(1);
  Stored stored(DType::kQ4_0, 16, 32, 4);
  const std::uint16_t big = f16_from_f32(60000.0f);
  std::memcpy(stored.bytes.data(), &big, 2);
  const PackedMatrix packed = pack(stored.view(), PackMode::kKeep, pool, arena);
  std::vector<float> x(32, 1.0f), weights(32);
  decode_row(stored.view(), 0, weights.data());
  double exact = 0;
  for (float w : weights) exact += w;
  EXPECT_NEAR(run(kRefOps, packed, x, 1)[0], exact, std::fabs(exact) * 1e-5 + 1);
}

}  // namespace
}  // namespace quern::kernels
