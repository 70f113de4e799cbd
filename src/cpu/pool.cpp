#include "cpu/pool.h"

#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <new>
#include <system_error>
#include <thread>
#include <vector>

namespace fa::cpu {

namespace {

/// The time that a thread spins before it sleeps: longer than the gap between the calls of a model's layers.
constexpr auto spin_time = std::chrono::microseconds(100);

inline void pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// Waits until atomic != old: spins at first, then sleeps.
template <class T>
void wait_while(const std::atomic<T> &atomic, T old) {
  const auto deadline = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < 64; i++) {
      if (atomic.load(std::memory_order_acquire) != old) return;
      pause();
    }
  } while (std::chrono::steady_clock::now() < deadline);
  atomic.wait(old, std::memory_order_acquire);
}

class Pool {
 public:
  ~Pool() {
    stop_.store(true);
    round_.store(round_.load() + one_round);
    round_.notify_all();
    for (std::thread &thread : threads_) thread.join();
  }

  Pool *next = nullptr;  // of the abandoned pools

  /// False when the pool is busy with another caller.
  bool run(fa_task task, void *ctx, int64_t n) {
    const std::unique_lock<std::mutex> lock(busy_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    start(n - 1);
    task_ = task;
    ctx_ = ctx;
    n_ = n;
    next_.store(0, std::memory_order_relaxed);
    round_.store((round_.load(std::memory_order_relaxed) + one_round) | open, std::memory_order_release);
    round_.notify_all();
    drain();
    // Close the round to threads that have not joined, then wait for those that have.
    uint64_t now = round_.fetch_and(~open, std::memory_order_acq_rel) & ~open;
    while ((now & members) != 0) {
      wait_while(round_, now);
      now = round_.load(std::memory_order_acquire);
    }
    return true;
  }

 private:
  // round_: the round's number, whether threads may still join it, and the number of those that have.
  static constexpr uint64_t members = 0xffff, open = 0x10000, one_round = 0x20000;
  static uint64_t number(uint64_t round) { return round / one_round; }

  /// Signals belong to the application's threads: the pool's start with all of them blocked. They inherit the starting
  /// thread's floating-point environment, which is the default within every call.
  void start(int64_t threads) {
    if (static_cast<int64_t>(threads_.size()) >= threads) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    try {
      while (static_cast<int64_t>(threads_.size()) < threads) threads_.emplace_back([this] { worker_loop(); });
    } catch (const std::system_error &) {
      // The calls run on fewer threads.
    } catch (const std::bad_alloc &) {
    }
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  void drain() {
    for (int64_t i; (i = next_.fetch_add(1, std::memory_order_relaxed)) < n_;) task_(ctx_, i);
  }

  void worker_loop() {
    uint64_t seen = 0;
    for (;;) {
      uint64_t now = round_.load(std::memory_order_acquire);
      if (stop_.load()) return;
      if (number(now) == seen || (now & open) == 0) {
        seen = number(now);
        wait_while(round_, now);
        continue;
      }
      if (!round_.compare_exchange_weak(now, now + 1, std::memory_order_acq_rel)) continue;
      drain();
      seen = number(now);
      round_.fetch_sub(1, std::memory_order_acq_rel);
      round_.notify_all();
    }
  }

  std::mutex busy_;
  std::vector<std::thread> threads_;
  std::atomic<uint64_t> round_{0};
  std::atomic<bool> stop_{false};
  fa_task task_ = nullptr;
  void *ctx_ = nullptr;
  int64_t n_ = 0;
  std::atomic<int64_t> next_{0};
};

std::atomic<Pool *> the_pool{nullptr};

/// A child of fork has none of its parent's threads and cannot destroy their pool, which is abandoned but kept
/// reachable, for leak checkers.
Pool *abandoned = nullptr;
void abandon_pool() {
  Pool *parents = the_pool.exchange(nullptr);
  if (parents == nullptr) return;
  parents->next = abandoned;
  abandoned = parents;
}

Pool *pool() {
  static const int registered = pthread_atfork(nullptr, nullptr, abandon_pool);
  (void)registered;
  Pool *current = the_pool.load();
  if (current != nullptr) return current;
  auto fresh = std::unique_ptr<Pool>(new (std::nothrow) Pool);
  if (fresh != nullptr && the_pool.compare_exchange_strong(current, fresh.get())) return fresh.release();
  return current;
}

/// Ends the threads before the library is unloaded.
struct AtUnload {
  ~AtUnload() { shutdown_pool(); }
} at_unload;

}  // namespace

void run_in_pool(fa_task task, void *ctx, int64_t n) {
  Pool *threads = n > 1 ? pool() : nullptr;
  if (threads != nullptr && threads->run(task, ctx, n)) return;
  for (int64_t i = 0; i < n; i++) task(ctx, i);
}

void shutdown_pool() {
  delete the_pool.exchange(nullptr);
}

}  // namespace fa::cpu
