// The workers of a call: each takes items until none is left, and all have ended when `each` returns.
#pragma once

#include <algorithm>
#include <atomic>

#include "core/problem.h"
#include "cpu/pool.h"

namespace fa::cpu {

class Team {
 public:
  Team(const Attention &attention, int64_t workers) : attention_(attention), workers_(workers) {}

  int64_t workers() const { return workers_; }

  /// Calls f(worker, item) once for every item in [0, items), in this order but from several threads; workers count
  /// from 0.
  template <class F>
  void each(int64_t items, const F &f) const {
    struct Shared {
      const F &f;
      int64_t items;
      std::atomic<int64_t> next{0};
    } shared{f, items};
    const fa_task task = [](void *ctx, int64_t worker) {
      Shared &s = *static_cast<Shared *>(ctx);
      for (int64_t i; (i = s.next.fetch_add(1, std::memory_order_relaxed)) < s.items;) s.f(worker, i);
    };
    const int64_t workers = std::min(workers_, items);
    if (workers <= 1) {
      task(&shared, 0);
    } else if (attention_.parallel_for != nullptr) {
      attention_.parallel_for(attention_.parallel_for_host, task, &shared, workers);
    } else {
      run_in_pool(task, &shared, workers);
    }
  }

 private:
  const Attention &attention_;
  int64_t workers_;
};

}  // namespace fa::cpu
