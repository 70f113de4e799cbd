// How a call is cut into blocks of threads: which image and entry point, which tiles, how many splits, how much memory
// for partial results. All of it follows from shapes, bounds and num_splits, and from the device's attributes, never
// from what lies in the device's memory.
#pragma once

#include "common/params.h"
#include "common/tensor_maps.h"
#include "core/call.h"
#include "cuda/image.h"

namespace fa::cuda {

/// Keys of one split under FA_FLAG_BATCH_INVARIANT: a multiple of every kernel's block of keys.
constexpr int32_t invariant_split_keys = 1024;

/// Partial results of calls whose number of splits was not chosen for the device: more than that is worked on in
/// several launches, one after another.
constexpr int64_t most_partial_bytes = int64_t{64} << 20;

/// An entry point that would have been better for a call, and why it does not serve it.
struct RejectedKernel {
  const Image *image;
  kernels::Entry entry;
  const char *why;
};

struct Plan {
  const Image *image;        // nullptr: none of the op's serves the call
  kernels::Entry entry;      // any but combine
  kernels::TileConfig tile;  // of the entry point
  int64_t tiles;             // all tiles, those of every head (and sequence, unless packed) counted in
  int64_t launch_tiles;      // of one launch
  int64_t slots;             // blocks that the device works on at once
  int64_t partial_bytes;     // of workspace that the plan itself needs; 0: no combine

  kernels::Params params;    // what its kernels are launched with; TileSchedulerParams::first_tile is 0
  kernels::TensorMaps maps;  // the same, where the tile has boxes

  RejectedKernel skipped[5 * most_images];
  int skipped_count;

  /// Splits of each tile's keys; 1: no combine.
  int32_t splits() const { return params.schedule.num_splits; }

  int64_t launches() const { return (tiles + launch_tiles - 1) / launch_tiles; }

  /// Partial results are in this workspace, of partial_bytes at least.
  void place_partials(char *workspace);
};

/// The plan of a problem that has something to compute.
Plan plan_of(const ForwardCall &problem, const ForwardKernels &serving, const Device &device);

/// Bytes that are enough for a problem's plan, and for the plan of every smaller one: never falls when a bound rises.
int64_t workspace_bound(const ForwardCall &problem, const ForwardKernels &serving, const Device &device);

}  // namespace fa::cuda
