// The plan of a forward call: which image and entry point, which tiles, how many splits, how much memory for partial
// results.
#pragma once

#include <string>

#include "common/quantised_params.h"
#include "core/call.h"
#include "cuda/plan.h"
#include "cuda/tiling.h"

namespace fa::cuda {

/// An entry point that would have been better for a call, and why it does not support it.
struct RejectedKernel {
  const Image *image;
  kernels::Entry entry;
  const char *why;
};

/// A loop of a kernel that computes results, or partial results and the kernel that combines them; or both, of
/// different tiles. Families that read no codes take the Params of its parameters.
struct ForwardPlan : Plan<kernels::QuantisedParams, 2> {
  static constexpr const char *advice = "ask for fewer num_splits";  // how a call needs less workspace

  RejectedKernel rejected[5 * max_images];
  int rejected_count = 0;
  int64_t slots = 0;  // blocks that the device works on at once

  const KernelLaunch &kernel() const { return loop[0].kernels[0]; }

  int64_t tiles() const { return last().first_tile + last().tiles; }

  /// Splits of the keys of the last loop's tiles; 1: no combine.
  int32_t splits() const { return last().schedule.num_splits; }

  /// The loop whose tiles are split, if any are.
  const LaunchLoop &last() const { return loop[loop_count == 0 ? 0 : loop_count - 1]; }

  void reject(const Image &image, kernels::Entry entry, const char *why) {
    rejected[rejected_count++] = {&image, entry, why};
  }
};

/// The plan of a call that has something to compute.
ForwardPlan plan_of(const ForwardCall &call, const KernelSet &kernels, const Device &device);

/// Bytes that are enough for a call's plan, and for the plan of every smaller one: never falls when a bound rises.
Count workspace_bound(const ForwardCall &call, const KernelSet &kernels, const Device &device);

/// The kernel, the number of splits, and the reasons against kernels that are better at other calls; "" without one.
std::string log_line(const ForwardPlan &plan);

}  // namespace fa::cuda
