// fa_append on the CPU.
#pragma once

#include "cpu/append.h"
#include "cpu/executor.h"
#include "cpu/tasks.h"

namespace fa::cpu {

template <>
struct Executor<AppendCall> {
  static constexpr const char *advice = "";  // of an error that cannot occur

  static fa_status check_contents(const AppendCall &call) { return check_append(call); }

  static NoWorkspace workspace(const AppendCall &call, const IsaKernels &, int32_t threads) {
    return {append_workers(call, threads)};
  }

  static void execute(const AppendCall &call, const IsaKernels &kernels, const NoWorkspace &workspace, char *) {
    struct Shared {
      const AppendCall &call;
      const IsaKernels &kernels;
      int64_t workers;
    } shared{call, kernels, workspace.workers};
    if (shared.workers <= 1) return run_append(call, kernels, 0, 1);
    const fa_task task = [](void *ctx, int64_t worker) {
      const Shared &s = *static_cast<Shared *>(ctx);
      run_append(s.call, s.kernels, worker, s.workers);
    };
    run_tasks(*call.attention, call.caller, task, &shared, shared.workers);
  }
};

}  // namespace fa::cpu
