#include "cpu/tasks.h"

#include "core/thread_state.h"
#include "cpu/pool.h"

namespace fa::cpu {

namespace {

struct UserTask {
  fa_task task;
  void *ctx;
};

/// A task on one of the application's threads.
void run_user_task(void *ctx, int64_t i) {
  const UserTask &user_task = *static_cast<const UserTask *>(ctx);
  in_default_state([&](CallerState &) { user_task.task(user_task.ctx, i); });
}

}  // namespace

void run_tasks(const Attention &attention, CallerState *caller, fa_task task, void *ctx, int64_t n) {
  if (attention.parallel_for == nullptr) return run_in_pool(task, ctx, n);
  UserTask user_task{task, ctx};
  in_caller_state(*caller, [&] { attention.parallel_for(attention.parallel_for_user, run_user_task, &user_task, n); });
}

}  // namespace fa::cpu
