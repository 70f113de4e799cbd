// One worker of a call: takes items of the plan until all are taken.
#pragma once

#include <atomic>

#include "cpu/plan.h"

namespace fa::cpu {

/// State that the workers of one call share.
struct SharedState {
  const ForwardCall &call;
  const IsaKernels &kernels;
  const ForwardPlan &plan;
  int64_t workers = 1;
  std::atomic<int64_t> next{0};
};

/// Processes items with the scratch of worker i until all are taken.
void run_worker(SharedState &shared, int64_t i);

}  // namespace fa::cpu
