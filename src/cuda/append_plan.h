// The plan of an append call. There are no kernels for it yet: an engine that has none does not ask for one.
#pragma once

#include <string>

#include "core/call.h"
#include "core/status.h"
#include "cuda/plan.h"

namespace fa::cuda {

struct AppendPlan : Plan<kernels::Params, 1> {
  static constexpr const char *advice = "";
};

inline AppendPlan plan_of(const AppendCall &, const KernelSet &, const Device &) {
  AppendPlan plan;
  plan.status = fail(FA_ERROR_UNSUPPORTED, "fa_append has no GPU kernels yet; expected memory of the host");
  return plan;
}

inline Count workspace_bound(const AppendCall &, const KernelSet &, const Device &) {
  return 0;
}

inline std::string log_line(const AppendPlan &) {
  return {};
}

}  // namespace fa::cuda
