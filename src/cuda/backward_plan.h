// How a backward call is carried out: its kernels one after another, each with the image that serves it best and its
// own blocks of threads. All of it follows from shapes, bounds, strides and types, never from what lies in the device's
// memory.
#pragma once

#include <span>

#include "common/backward_params.h"
#include "core/call.h"
#include "core/count.h"
#include "cuda/image.h"

namespace fa::cuda {

/// A kernel of the call.
struct KernelLaunch {
  const Image *image;
  kernels::Entry entry;
  int64_t tiles;                          // of all launches: blocks
  int rows;                               // of blocks
  kernels::TileSchedulerParams schedule;  // but for first_tile and blocks
  const char *why_no_better;  // why an image before this one does not serve the call; nullptr: it is the best
};

struct BackwardPlan {
  kernels::BackwardParams params;  // all but the schedule, what derive finds, and what place does

  /// In the order of the stream. Gradients that are absent, or have no elements, have none.
  std::span<const KernelLaunch> list() const { return {launches, static_cast<size_t>(count)}; }

  /// Where the call's memory is: as much as backward_workspace has.
  void place(char *workspace);

  KernelLaunch launches[5];
  int count;
  bool in_turns;               // blocks of keys add to sums of dq in one order
  const char *why_two_passes;  // over the scores, for dk and dv and for dq; nullptr: there is one
};

/// The plan of a call for which there are images.
BackwardPlan plan_of(const BackwardCall &call, const Gradients &gradients, const Device &device);

/// Bytes of workspace: never falls when a bound rises.
Count backward_workspace(const BackwardCall &call, const Gradients &gradients, const Device &device);

}  // namespace fa::cuda
