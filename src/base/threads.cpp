#include "base/threads.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "base/cpu_features.h"

namespace quern {
namespace {

constexpr int kSpinsCrowded = 16;
constexpr int kSpins = 4000;  // about 40 µs of `pause`: longer than the serial gaps within a step

void pause_cpu() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#else
  std::this_thread::yield();
#endif
}

void futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value) {
  syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, nullptr, nullptr,
          0);
}

}  // namespace

// Waits until `ready()`; yields the processor now and then, since the thread waited for may need
// it.
template <typename Ready>
void ThreadPool::spin_until(Ready ready) const {
  for (int i = 1; !ready(); ++i) {
    if (i % spins_ == 0) {
      std::this_thread::yield();
    } else {
      pause_cpu();
    }
  }
}

ThreadPool::ThreadPool(int threads)
    : threads_(std::max(1, threads)), spins_(threads_ > usable_cpus() ? kSpinsCrowded : kSpins) {
  for (int thread = 1; thread < threads_; ++thread) {
    workers_.emplace_back([this, thread] { work(thread); });
  }
}

ThreadPool::~ThreadPool() {
  stop_ = true;
  run([](int) {});
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::fork_join() {
  done_.store(0, std::memory_order_relaxed);
  // Sequentially consistent with the sleeper's own pair below: either it sees the new epoch, or
  // this thread sees the sleeper.
  epoch_.fetch_add(1, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex(epoch_, FUTEX_WAKE_PRIVATE, 1 << 30);
  call_(context_, 0);
  spin_until([this] { return done_.load(std::memory_order_acquire) == threads_ - 1; });
}

void ThreadPool::barrier() {
  const std::uint32_t generation = generation_.load(std::memory_order_acquire);
  if (arrived_.fetch_add(1, std::memory_order_acq_rel) == threads_ - 1) {
    arrived_.store(0, std::memory_order_relaxed);
    generation_.store(generation + 1, std::memory_order_release);
    return;
  }
  spin_until([&] { return generation_.load(std::memory_order_acquire) != generation; });
}

void ThreadPool::work(int thread) {
  std::uint32_t seen = 0;
  while (true) {
    int spins = 0;
    while (epoch_.load(std::memory_order_acquire) == seen) {
      if (++spins < spins_) {
        pause_cpu();
        continue;
      }
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      if (epoch_.load(std::memory_order_seq_cst) == seen) futex(epoch_, FUTEX_WAIT_PRIVATE, seen);
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
      spins = 0;
    }
    ++seen;
    const bool last = stop_;
    call_(context_, thread);
    done_.fetch_add(1, std::memory_order_release);
    if (last) return;
  }
}

}  // namespace quern
