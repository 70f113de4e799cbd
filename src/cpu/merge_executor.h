// fa_merge on the CPU.
#pragma once

#include "cpu/executor.h"
#include "cpu/merge.h"

namespace fa::cpu {

template <>
struct Executor<MergeCall> {
  static constexpr const char *advice = "";  // of an error that cannot occur

  static fa_status check_contents(const MergeCall &) { return FA_OK; }

  static NoWorkspace workspace(const MergeCall &, const IsaKernels &, int32_t threads) { return {threads}; }

  static void execute(const MergeCall &call, const IsaKernels &kernels, const NoWorkspace &workspace, char *) {
    run_merge(call, kernels, workspace.workers);
  }
};

}  // namespace fa::cpu
