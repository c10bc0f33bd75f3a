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

// The worker keeps one processor and what its caches hold: the one of that number among those this
// process may use. Only where the pool takes them all: under a quota, or with fewer threads, every
// process of the machine would pin to the same few. The caller stays free: it is not the pool's.
void pin(int thread, int threads) {
  cpu_set_t allowed;
  CPU_ZERO(&allowed);
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  if (CPU_COUNT(&allowed) != threads) return;
  int number = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed) || number++ != thread) continue;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    pthread_setaffinity_np(pthread_self(), sizeof own, &own);
    return;
  }
}

constexpr std::uint32_t kClosed = 0xFFFFFFFF;  // a chunk number that no loop has

constexpr std::uint64_t ticket(std::uint32_t loop, std::uint32_t chunk) {
  return std::uint64_t{loop} << 32 | chunk;
}

}  // namespace

ThreadPool::ThreadPool(int threads)
    : threads_(std::max(1, threads)), spins_(threads_ > usable_cpus() ? kSpinsCrowded : kSpins) {
  ticket_.store(ticket(0, kClosed));
  const bool pinned = usable_cpus() == threads_;
  for (int thread = 1; thread < threads_; ++thread) {
    workers_.emplace_back([this, thread, pinned] { work(thread, pinned); });
  }
}

ThreadPool::~ThreadPool() {
  stop_.store(true);
  epoch_.fetch_add(1);
  futex(epoch_, FUTEX_WAKE_PRIVATE, 1 << 30);
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_loop(std::int64_t count, std::int64_t grain, void* context, Call call) {
  const std::uint32_t loop = epoch_.load(std::memory_order_relaxed) + 1;
  const auto chunks = static_cast<std::uint32_t>((count + grain - 1) / grain);
  ticket_.store(ticket(loop, kClosed), std::memory_order_relaxed);
  // Released and acquired one by one: who sees a value of this loop sees that the ticket is closed.
  call_.store(call, std::memory_order_release);
  context_.store(context, std::memory_order_release);
  count_.store(count, std::memory_order_release);
  grain_.store(grain, std::memory_order_release);
  chunks_.store(chunks, std::memory_order_release);
  done_.store(0, std::memory_order_relaxed);
  ticket_.store(ticket(loop, 0), std::memory_order_release);
  // Sequentially consistent with the sleeper's own pair below: either it sees the new epoch, or
  // this thread sees the sleeper.
  epoch_.store(loop, std::memory_order_seq_cst);
  if (sleepers_.load(std::memory_order_seq_cst) != 0) futex(epoch_, FUTEX_WAKE_PRIVATE, 1 << 30);
  take_chunks(0);
  for (int i = 1; done_.load(std::memory_order_acquire) != chunks; ++i) {
    // Yields now and then, since the thread waited for may need this processor.
    if (i % spins_ == 0) {
      std::this_thread::yield();
    } else {
      pause_cpu();
    }
  }
}

void ThreadPool::take_chunks(int thread) {
  std::uint64_t now = ticket_.load(std::memory_order_acquire);
  while (true) {
    const auto chunk = static_cast<std::uint32_t>(now);
    const Call call = call_.load(std::memory_order_acquire);
    void* const context = context_.load(std::memory_order_acquire);
    const std::int64_t count = count_.load(std::memory_order_acquire);
    const std::int64_t grain = grain_.load(std::memory_order_acquire);
    if (chunk >= chunks_.load(std::memory_order_acquire)) return;
    // Fails where the loop is no longer the one whose values were read.
    if (!ticket_.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      continue;
    }
    const std::int64_t begin = chunk * grain;
    call(context, begin, std::min(count, begin + grain), thread);
    done_.fetch_add(1, std::memory_order_release);
    now = ticket_.load(std::memory_order_acquire);
  }
}

void ThreadPool::work(int thread, bool pinned) {
  if (pinned) pin(thread, threads_);
  std::uint32_t seen = 0;
  while (true) {
    int spins = 0;
    std::uint32_t epoch;
    while ((epoch = epoch_.load(std::memory_order_acquire)) == seen) {
      if (++spins < spins_) {
        pause_cpu();
        continue;
      }
      sleepers_.fetch_add(1, std::memory_order_seq_cst);
      if (epoch_.load(std::memory_order_seq_cst) == seen) futex(epoch_, FUTEX_WAIT_PRIVATE, seen);
      sleepers_.fetch_sub(1, std::memory_order_seq_cst);
      spins = 0;
    }
    seen = epoch;
    if (stop_.load(std::memory_order_acquire)) return;
    take_chunks(thread);
  }
}

}  // namespace quern
