// Products of heads against one product for each head alone: the same bits.
#include "kernels/head_matmul.h"

#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "kernels/matmul.h"
#include "kernels/test_random.h"
#include "kernels/test_stored.h"

namespace quern::kernels {
namespace {

Arena arena;  // of all packed matrices

constexpr std::int64_t kOutputs = 48, kGap = 5;  // kGap: values between a head's and the next
constexpr float kUntouched = -1e30f;

struct Operands {
  Operands(DType type, std::int64_t heads, std::int64_t k, std::int64_t rows, ThreadPool& pool)
      : heads(heads), k(k), rows(rows), stored(type, heads * kOutputs, k, 3) {
    weights = pack(stored.view(), PackMode::kKeep, pool, arena);
    x = random_floats(rows * heads * (k + kGap), 11);
  }

  std::vector<float> all(ThreadPool& pool) const {
    std::vector<float> out(static_cast<size_t>(rows * heads * (kOutputs + kGap)), kUntouched);
    AlignedBuffer scratch(head_scratch_bytes(pool, k));
    multiply_heads(pool,
                   {.weights = &weights,
                    .heads = heads,
                    .x = x.data(),
                    .x_row_stride = heads * (k + kGap),
                    .x_head_stride = k + kGap,
                    .out = out.data(),
                    .out_row_stride = heads * (kOutputs + kGap),
                    .out_head_stride = kOutputs + kGap},
                   rows, scratch.data());
    return out;
  }

  // One head's rows by the ordinary product, [rows, kOutputs].
  std::vector<float> alone(std::int64_t head, ThreadPool& pool) const {
    TensorInfo info = stored.info;
    info.shape[0] = kOutputs;
    const std::int64_t bytes = kOutputs * row_bytes(info.dtype, k);
    const PackedMatrix one =
        pack({&info, stored.bytes.data() + head * bytes}, PackMode::kKeep, pool, arena);
    std::vector<float> gathered, out(static_cast<size_t>(rows * kOutputs));
    for (std::int64_t row = 0; row < rows; ++row) {
      const auto begin = x.begin() + (row * heads + head) * (k + kGap);
      gathered.insert(gathered.end(), begin, begin + k);
    }
    const MatmulTarget target[] = {{&one, out.data()}};
    Matmul(pool, rows, k)(gathered.data(), rows, target);
    return out;
  }

  std::int64_t heads, k, rows;
  Stored stored;
  PackedMatrix weights;
  std::vector<float> x;
};

TEST(HeadMatmul, GivesEachHeadTheBitsOfItsOwnProduct) {
  for (const DType type : {DType::kF32, DType::kF16, DType::kBF16, DType::kQ8_0, DType::kQ5_1}) {
    for (const auto& [heads, rows, threads] :
         {std::tuple{1, 1, 5}, {1, 130, 2}, {5, 3, 1}, {5, 64, 3}, {16, 1, 2}, {16, 65, 4}}) {
      ThreadPool pool(threads);
      const Operands operands(type, heads, 96, rows, pool);
      const std::vector<float> out = operands.all(pool);
      for (std::int64_t head = 0; head < heads; ++head) {
        const std::vector<float> expected = operands.alone(head, pool);
        for (std::int64_t row = 0; row < rows; ++row) {
          const float* at = out.data() + (row * heads + head) * (kOutputs + kGap);
          ASSERT_EQ(0, std::memcmp(at, expected.data() + row * kOutputs, kOutputs * 4))
              << name_of(type) << " " << heads << " " << rows << " " << threads;
          for (std::int64_t i = 0; i < kGap; ++i) ASSERT_EQ(at[kOutputs + i], kUntouched);
        }
      }
    }
  }
}

TEST(HeadMatmul, DoesNothingForNoRows) {
  ThreadPool pool(2);
  const Operands operands(DType::kBF16, 2, 32, 0, pool);
  EXPECT_TRUE(operands.all(pool).empty());
}

}  // namespace
}  // namespace quern::kernels
