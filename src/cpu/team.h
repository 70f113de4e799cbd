// The workers of a call: each takes items until none is left, and all have ended when `each` returns. What stands side
// by side goes to one worker, and so does what has the same place in the next step: it is in that worker's caches.
#pragma once

#include <algorithm>
#include <atomic>
#include <new>

#include "core/call.h"
#include "cpu/tasks.h"

namespace fa::cpu {

/// A worker's own items, in order. It takes them from the front; others that have none left take from the back.
class alignas(64) Share {
 public:
  Share() = default;
  Share(int64_t first, int64_t last) : first_(first), last_(last) {}

  /// The next item, or -1. Only the share's own worker takes from the front.
  int64_t take(bool front) {
    if (taken_.fetch_add(1, std::memory_order_relaxed) >= last_ - first_) return -1;
    return front ? first_ + from_front_++ : last_ - 1 - from_back_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  int64_t first_ = 0, last_ = 0, from_front_ = 0;
  std::atomic<int64_t> taken_{0}, from_back_{0};
};

class Team {
 public:
  /// shares: memory for one of each worker.
  Team(const Attention &attention, HostState *host, int64_t workers, Share *shares)
      : attention_(attention), host_(host), workers_(workers), shares_(shares) {}

  int64_t workers() const { return workers_; }

  /// Calls f(worker, item) once for every item in [0, items), from several threads; workers count from 0.
  template <class F>
  void each(int64_t items, const F &f) const {
    each(items, f, [] {});
  }

  /// Calls none_left() besides, on each of several workers when all items are taken.
  template <class F, class NoneLeft>
  void each(int64_t items, const F &f, const NoneLeft &none_left) const {
    struct Step {
      const F &f;
      const NoneLeft &none_left;
      Share *shares;
      int64_t workers;
    } step{f, none_left, shares_, std::min(workers_, items)};
    if (step.workers <= 1) {
      for (int64_t i = 0; i < items; i++) f(0, i);
      return;
    }
    for (int64_t i = 0; i < step.workers; i++)
      new (&shares_[i]) Share(items * i / step.workers, items * (i + 1) / step.workers);
    const fa_task task = [](void *ctx, int64_t worker) {
      const Step &s = *static_cast<const Step *>(ctx);
      for (int64_t i = 0; i < s.workers; i++)
        for (int64_t item; (item = s.shares[(worker + i) % s.workers].take(i == 0)) >= 0;) s.f(worker, item);
      s.none_left();
    };
    run_tasks(attention_, host_, task, &step, step.workers);
  }

 private:
  const Attention &attention_;
  HostState *host_;
  int64_t workers_;
  Share *shares_;
};

}  // namespace fa::cpu
