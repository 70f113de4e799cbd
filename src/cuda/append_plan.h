// The plan of an append: one kernel, over all rows of k, v and q.
#pragma once

#include <string>

#include "common/append_codes_params.h"
#include "core/call.h"
#include "cuda/plan.h"

namespace fa::cuda {

/// A family that writes no codes takes the AppendParams of its parameters.
struct AppendPlan : Plan<kernels::AppendCodesParams, 1> {
  static constexpr const char *advice = "";  // as it needs no workspace
};

/// The plan of a call for which there are images.
AppendPlan plan_of(const AppendCall &call, const KernelSet &kernels, const Device &device);

/// No bytes.
Count workspace_bound(const AppendCall &call, const KernelSet &kernels, const Device &device);

/// The kernel.
std::string log_line(const AppendPlan &plan);

}  // namespace fa::cuda
