// The plan of a backward call: its kernels one after another, each with the image that supports it best and its own
// blocks of threads.
#pragma once

#include <string>

#include "common/backward_params.h"
#include "core/call.h"
#include "cuda/plan.h"

namespace fa::cuda {

/// A loop for each kernel. Gradients that are absent, or have no elements, have none.
struct BackwardPlan : Plan<kernels::BackwardParams, 5> {
  static constexpr const char *advice = "split the batch";  // how a call needs less workspace

  bool fixed_order = false;              // blocks of keys add to sums of dq in one order
  const char *why_two_passes = nullptr;  // over the scores, for dk and dv and for dq; nullptr: there is one
};

/// The plan of a call for which there are images.
BackwardPlan plan_of(const BackwardCall &call, const KernelSet &kernels, const Device &device);

/// Bytes that are enough for a call's plan: never falls when a bound rises.
Count workspace_bound(const BackwardCall &call, const KernelSet &kernels, const Device &device);

/// The kernels, each with the reason why not a better one, and the reason for a separate pass for dq.
std::string log_line(const BackwardPlan &plan);

}  // namespace fa::cuda
