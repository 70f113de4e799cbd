// One worker of a call: takes items of the plan until none is left.
#pragma once

#include <atomic>

#include "cpu/plan.h"

namespace fa::cpu {

/// What the workers of one call share.
struct Call {
  const ForwardCall &problem;
  const Kernels &kernels;
  const Plan &plan;
  int64_t workers = 1;
  std::atomic<int64_t> next{0};
};

/// Works through items of `call` with the scratch of worker i.
void work(Call &call, int64_t i);

}  // namespace fa::cpu
