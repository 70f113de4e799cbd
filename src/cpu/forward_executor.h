// fa_forward on the CPU.
#pragma once

#include <algorithm>

#include "cpu/executor.h"
#include "cpu/plan.h"
#include "cpu/sequences.h"
#include "cpu/tasks.h"
#include "cpu/tree_rows.h"
#include "cpu/worker.h"

namespace fa::cpu {

template <>
struct Executor<ForwardCall> {
  static constexpr const char *advice = "fewer threads or splits need less";

  static fa_status check_contents(const ForwardCall &call) {
    const fa_status status = check_sequences(call);
    return status != FA_OK ? status : check_depths(call);
  }

  static ForwardWorkspace workspace(const ForwardCall &call, const IsaKernels &kernels, int32_t threads) {
    return ForwardPlan::workspace(call, kernels, threads);
  }

  static void execute(const ForwardCall &call, const IsaKernels &kernels, const ForwardWorkspace &workspace,
                      char *memory) {
    const ForwardPlan plan(call, kernels, workspace, memory);
    const int64_t workers = plan.macs() < min_parallel_macs ? 1 : std::min(workspace.workers, plan.items());
    SharedState shared{call, kernels, plan, workers};
    if (workers <= 1) return run_worker(shared, 0);
    const fa_task task = [](void *ctx, int64_t worker) { run_worker(*static_cast<SharedState *>(ctx), worker); };
    run_tasks(*call.attention, call.caller, task, &shared, workers);
  }
};

}  // namespace fa::cpu
