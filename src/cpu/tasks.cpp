#include "cpu/tasks.h"

#include "core/thread_state.h"
#include "cpu/pool.h"

namespace fa::cpu {

namespace {

struct Lent {
  fa_task task;
  void *ctx;
};

/// A task on a thread of the host's.
void run_lent(void *ctx, int64_t i) {
  const Lent &lent = *static_cast<const Lent *>(ctx);
  in_default_state([&](HostState &) { lent.task(lent.ctx, i); });
}

}  // namespace

void run_tasks(const Attention &attention, HostState *host, fa_task task, void *ctx, int64_t n) {
  if (attention.parallel_for == nullptr) return run_in_pool(task, ctx, n);
  Lent lent{task, ctx};
  in_hosts_state(*host, [&] { attention.parallel_for(attention.parallel_for_user, run_lent, &lent, n); });
}

}  // namespace fa::cpu
