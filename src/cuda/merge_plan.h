// The plan of a merge: one kernel, over all rows.
#pragma once

#include <string>

#include "common/merge_params.h"
#include "core/call.h"
#include "cuda/plan.h"

namespace fa::cuda {

struct MergePlan : Plan<kernels::MergeParams, 1> {
  static constexpr const char *advice = "";  // as it needs no workspace
};

/// The plan of a call for which there are images.
MergePlan plan_of(const MergeCall &call, const KernelSet &kernels, const Device &device);

/// No bytes.
Count workspace_bound(const MergeCall &call, const KernelSet &kernels, const Device &device);

/// The kernel.
std::string log_line(const MergePlan &plan);

}  // namespace fa::cuda
