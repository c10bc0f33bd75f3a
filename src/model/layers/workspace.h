// What the parts of a model share in a step: the threads, the kernels, the matmul, and one area of
// scratch that the part at work has to itself. Made by the decoder; the engine's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/threads.h"
#include "kernels/aligned_buffer.h"
#include "kernels/matmul.h"
#include "kernels/ops.h"

namespace quern::model {

// Pieces of the scratch area, end to end, each aligned to a cache line. Without an area it counts
// what they take: a part lays its buffers out once, to reserve them and to use them.
class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::byte* area) : area_(area) {}

  template <typename T>
  T* take(std::int64_t count) {
    std::byte* piece = area_ == nullptr ? nullptr : area_ + bytes_;
    bytes_ += (count * static_cast<std::int64_t>(sizeof(T)) + 63) / 64 * 64;
    return reinterpret_cast<T*>(piece);
  }
  std::int64_t bytes() const { return bytes_; }

 private:
  std::byte* area_ = nullptr;
  std::int64_t bytes_ = 0;
};

class Workspace {
 public:
  // For batches of at most `max_tokens` tokens and `max_rows` rows of logits.
  Workspace(ThreadPool& pool, std::int64_t max_tokens, std::int64_t max_rows);

  // By a part that is being made: the scratch of its largest batch, the longest row that it gives
  // to matmul(), and the most of them where there may be more than tokens in a batch.
  void reserve(const Scratch& counted, std::int64_t k, std::int64_t rows = 0);
  // Once, when all parts are made. Throws: kOutOfMemory.
  void allocate();

  // The whole area, for the part that is called; what it calls in turn uses the same.
  Scratch scratch() const { return Scratch(area_.data()); }
  kernels::Matmul& matmul() { return *matmul_; }
  const kernels::Ops& ops() const { return ops_; }
  ThreadPool& pool() const { return pool_; }
  std::int64_t max_tokens() const { return max_tokens_; }

  // f(row) for every row; over the pool where there are enough of them to be worth a fork.
  template <typename F>
  void each_row(std::int64_t rows, F f) const {
    const std::int64_t grain = rows < 4 ? rows : pool_.even_grain(rows);
    pool_.for_each(rows, grain, [&](std::int64_t begin, std::int64_t end, int) {
      for (std::int64_t row = begin; row < end; ++row) f(row);
    });
  }

 private:
  ThreadPool& pool_;
  const kernels::Ops& ops_;
  std::int64_t max_tokens_;
  std::int64_t max_rows_;  // of matmul()
  std::int64_t scratch_bytes_ = 0, max_k_ = 0;
  kernels::AlignedBuffer area_;
  std::optional<kernels::Matmul> matmul_;
};

}  // namespace quern::model
