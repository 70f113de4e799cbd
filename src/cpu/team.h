// Parallel loops of a call's workers, with work stealing. Adjacent items go to one worker, and items of equal index go
// to the same worker in consecutive loops, so that their data is in its caches.
#pragma once

#include <algorithm>
#include <atomic>
#include <new>

#include "core/call.h"
#include "cpu/tasks.h"

namespace fa::cpu {

/// The items of one worker: the worker takes them from the front, and idle workers steal them from the back.
class alignas(64) WorkStealingQueue {
 public:
  WorkStealingQueue() = default;
  WorkStealingQueue(int64_t first, int64_t last) : first_(first), last_(last) {}

  /// The next item for the worker that owns the queue, or -1.
  int64_t take() { return any_left() ? first_ + from_front_++ : -1; }

  /// The next item for another worker, or -1.
  int64_t steal() { return any_left() ? last_ - 1 - from_back_.fetch_add(1, std::memory_order_relaxed) : -1; }

 private:
  bool any_left() { return taken_.fetch_add(1, std::memory_order_relaxed) < last_ - first_; }

  int64_t first_ = 0, last_ = 0, from_front_ = 0;
  std::atomic<int64_t> taken_{0}, from_back_{0};
};

class ThreadTeam {
 public:
  /// queues: memory for one queue per worker.
  ThreadTeam(const Attention &attention, CallerState *caller, int64_t workers, WorkStealingQueue *queues)
      : attention_(attention), caller_(caller), workers_(workers), queues_(queues) {}

  int64_t workers() const { return workers_; }

  /// Calls f(worker, item) once for each item in [0, items), on several threads; workers are numbered from 0.
  template <class F>
  void parallel_for(int64_t items, const F &f) const {
    parallel_for(items, f, [] {});
  }

  /// Also calls on_idle() on each worker that finds all items taken, where there are several workers.
  template <class F, class OnIdle>
  void parallel_for(int64_t items, const F &f, const OnIdle &on_idle) const {
    struct Loop {
      const F &f;
      const OnIdle &on_idle;
      WorkStealingQueue *queues;
      int64_t workers;
    } loop{f, on_idle, queues_, std::min(workers_, items)};
    if (loop.workers <= 1) {
      for (int64_t i = 0; i < items; i++) f(0, i);
      return;
    }
    for (int64_t i = 0; i < loop.workers; i++)
      new (&queues_[i]) WorkStealingQueue(items * i / loop.workers, items * (i + 1) / loop.workers);
    const fa_task task = [](void *ctx, int64_t worker) {
      const Loop &l = *static_cast<const Loop *>(ctx);
      for (int64_t item; (item = l.queues[worker].take()) >= 0;) l.f(worker, item);
      for (int64_t i = 1; i < l.workers; i++)
        for (int64_t item; (item = l.queues[(worker + i) % l.workers].steal()) >= 0;) l.f(worker, item);
      l.on_idle();
    };
    run_tasks(attention_, caller_, task, &loop, loop.workers);
  }

 private:
  const Attention &attention_;
  CallerState *caller_;
  int64_t workers_;
  WorkStealingQueue *queues_;
};

}  // namespace fa::cpu
