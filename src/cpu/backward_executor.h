// fa_backward on the CPU.
#pragma once

#include "cpu/backward/backward.h"
#include "cpu/executor.h"
#include "cpu/sequences.h"
#include "cpu/team.h"

namespace fa::cpu {

#ifndef FA_NO_BACKWARD
template <>
struct Executor<BackwardCall> {
  static constexpr const char *advice = "fewer threads need less";

  static fa_status check_contents(const BackwardCall &call) { return check_sequences(call); }

  static BackwardWorkspace workspace(const BackwardCall &call, const IsaKernels &kernels, int32_t threads) {
    return BackwardPlan::workspace(call, *kernels.backward, threads);
  }

  static void execute(const BackwardCall &call, const IsaKernels &kernels, const BackwardWorkspace &workspace,
                      char *memory) {
    const BackwardPlan plan(call, *kernels.backward, workspace, memory);
    const int64_t workers = plan.macs() < min_parallel_macs ? 1 : workspace.workers;
    run_backward(plan, ThreadTeam(*call.attention, call.caller, workers, plan.queues()));
  }
};
#endif

}  // namespace fa::cpu
