// The compute pool: loops cut into chunks that threads take as they get to them. The caller (the
// engine thread) is worker 0. A worker that has lost its processor holds up nobody but for a chunk
// it has begun. Workers spin for a few microseconds after a job, then sleep in a futex, so that a
// step's many small jobs cost a store each and an idle server costs nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <thread>
#include <type_traits>
#include <vector>

namespace quern {

class ThreadPool {
 public:
  // `threads` workers in all, the caller included; clamped to at least 1. With more of them than
  // processors every wait yields at once, since the thread waited for may need this processor.
  explicit ThreadPool(int threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int size() const { return threads_; }

  // Calls f(begin, end, thread) for chunks of at most `grain` items that together are [0, count),
  // each once, in any order and on any thread (0 … size()-1, one call at a time on each); a pool of
  // one thread takes all in one chunk. Returns when all are done. f must not throw. Not reentrant:
  // one loop at a time, from one thread.
  template <typename F>
  void for_each(std::int64_t count, std::int64_t grain, F&& f) {
    if (count <= 0) return;
    if (threads_ == 1 || count <= grain) return f(std::int64_t{0}, count, 0);
    run_loop(count, grain, const_cast<void*>(static_cast<const void*>(&f)),
             [](void* context, std::int64_t begin, std::int64_t end, int thread) {
               (*static_cast<std::remove_reference_t<F>*>(context))(begin, end, thread);
             });
  }

  // A grain that gives each thread a few chunks: enough to even out, few enough to cost nothing.
  std::int64_t even_grain(std::int64_t count) const {
    return (count + 4 * threads_ - 1) / (4 * threads_);
  }

 private:
  using Call = void (*)(void* context, std::int64_t begin, std::int64_t end, int thread);

  void run_loop(std::int64_t count, std::int64_t grain, void* context, Call call);
  void take_chunks(int thread);
  void work(int thread, bool pinned);

  const int threads_;
  const int spins_;  // of a wait, before the processor is given to somebody else
  std::atomic<bool> stop_{false};
  std::vector<std::thread> workers_;

  // The loop at hand. Written while its ticket is closed; a reader that was late fails to take a
  // ticket, and forgets what it read.
  std::atomic<Call> call_{nullptr};
  std::atomic<void*> context_{nullptr};
  std::atomic<std::int64_t> count_{0}, grain_{0};
  std::atomic<std::uint32_t> chunks_{0};

  // Each on its own cache line: they are written by different threads at different times.
  alignas(64) std::atomic<std::uint64_t> ticket_{0};  // number of the loop << 32 | next chunk
  alignas(64) std::atomic<std::uint32_t> epoch_{0};   // number of the loop; workers wait on it
  alignas(64) std::atomic<std::uint32_t> sleepers_{0};
  alignas(64) std::atomic<std::uint32_t> done_{0};  // chunks of the loop
};

}  // namespace quern
