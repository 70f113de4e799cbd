// How a call is cut into blocks of threads: which entry point, which tiles, how many splits, how much memory for
// partial results. All of it follows from shapes, bounds and num_splits, and from the device's attributes, never from
// what lies in the device's memory.
#pragma once

#include "common/params.h"
#include "core/problem.h"
#include "cuda/image.h"

namespace fa::cuda {

/// Keys of one split under FA_FLAG_BATCH_INVARIANT: a multiple of every kernel's block of keys.
constexpr int32_t invariant_split_keys = 1024;

/// Partial results of calls whose number of splits was not chosen for the device: more than that is worked on in
/// several launches, one after another.
constexpr int64_t most_partial_bytes = int64_t{64} << 20;

struct Plan {
  kernels::Entry entry;  // any but combine
  kernels::Tile tile;
  int32_t packed_heads;    // of a tile
  int32_t tiles;           // Schedule::tiles
  int64_t places;          // all tiles, those of every head (and sequence, unless packed) counted in
  int64_t launch_places;   // of one launch
  int32_t num_splits;      // 1: no combine
  int32_t split_keys;      // Schedule::split_keys
  int64_t partial_bytes;   // what the plan itself needs
  int64_t max_sum_offset;  // bytes from the partial values to their maxima and sums

  int64_t launches() const { return (places + launch_places - 1) / launch_places; }
};

/// The plan of a problem that has something to compute.
Plan plan_of(const Problem &problem, const Image &image, const Device &device);

/// Bytes that are enough for a problem's plan, and for the plan of every smaller one: never falls when a bound rises.
int64_t workspace_bound(const Problem &problem, const Image &image, const Device &device);

/// What a plan's kernels are launched with; Schedule::first_tile is 0.
kernels::Params params_of(const Problem &problem, const Plan &plan, char *workspace);

}  // namespace fa::cuda
