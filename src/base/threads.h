// The compute pool: fork-join over pinned threads. The caller (the engine thread) is worker 0.
// Workers spin for a few microseconds after a job, then sleep in a futex, so that a step's many
// small jobs cost a store each and an idle server costs nothing. Design: docs/architecture.md.
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

  // Runs f(thread) on every worker, thread = 0 … size()-1, and returns when all are done.
  // f must not throw. Not reentrant: one job at a time, from one thread.
  template <typename F>
  void run(F&& f) {
    call_ = [](void* context, int thread) {
      (*static_cast<std::remove_reference_t<F>*>(context))(thread);
    };
    context_ = const_cast<void*>(static_cast<const void*>(&f));
    fork_join();
  }

  // Inside run(): returns when every worker has called it.
  void barrier();

 private:
  void fork_join();
  void work(int thread);

  template <typename Ready>
  void spin_until(Ready ready) const;

  int threads_;
  int spins_;  // of a wait, before the processor is given to somebody else
  bool stop_ = false;
  void (*call_)(void*, int) = nullptr;
  void* context_ = nullptr;
  std::vector<std::thread> workers_;
  // Each on its own cache line: they are written by different threads at different times.
  alignas(64) std::atomic<std::uint32_t> epoch_{0};
  alignas(64) std::atomic<std::uint32_t> sleepers_{0};
  alignas(64) std::atomic<int> done_{0};
  alignas(64) std::atomic<int> arrived_{0};
  alignas(64) std::atomic<std::uint32_t> generation_{0};
};

// The part [begin, end) of `count` items that worker `thread` of `threads` takes.
struct Range {
  std::int64_t begin, end;
};
inline Range share(std::int64_t count, int thread, int threads) {
  return {count * thread / threads, count * (thread + 1) / threads};
}

}  // namespace quern
