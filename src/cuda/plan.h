// The plan of a call of any operation: kernels in the order of the stream, their parameters, and the parts of the
// workspace. All of it follows from shapes, bounds, strides and types and from the device's attributes, never from the
// contents of the device's memory. The engine enqueues every plan in the same way.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "common/params.h"
#include "common/tensor_maps.h"
#include "core/count.h"
#include "cuda/image.h"

namespace fa::cuda {

constexpr int64_t max_blocks = 0x7fffffff;  // of a grid

/// A kernel of a plan.
struct KernelLaunch {
  KernelLaunch() {}  // as a constexpr one it would clear the room for maps, too, in every plan

  const Image *image = nullptr;
  kernels::Entry entry = {};
  kernels::TileConfig tile = {};  // of the entry point, with fewer rows where packed heads do not fill it
  int64_t blocks_per_tile = 1;    // of the grid's first dimension: splits
  int grid_y = 1, grid_z = 1;     // the grid's other dimensions
  bool takes_over = false;        // the grid has a block for each work tile; they take over others of it
  bool dependent = false;         // a programmatic dependent launch: the kernel itself waits for the one before
  std::optional<kernels::TensorMaps> maps;  // where the tile has boxes
  uint32_t *tickets = nullptr;              // in the workspace: blocks take work tiles by them; 0 when it starts
  const char *why_no_better = nullptr;      // why an image before this one does not support the call
};

/// Kernels that run one after another on the same tiles: on all of them, or on some at a time where the grid or the
/// memory for partial results holds no more.
struct LaunchLoop {
  kernels::TileSchedulerParams schedule = {};  // but for first_tile and blocks
  int64_t first_tile = 0;                      // of the call
  int64_t tiles = 0;                           // those of every head (and sequence, unless packed) counted in
  int64_t tiles_per_launch = 0;
  KernelLaunch kernels[2];
  int kernel_count = 0;

  std::span<const KernelLaunch> launches() const { return {kernels, static_cast<size_t>(kernel_count)}; }
  int64_t rounds() const { return (tiles + tiles_per_launch - 1) / tiles_per_launch; }
};

/// The parts of a workspace, one behind the other, and the parameters that point to them.
template <class KernelParams>
class WorkspaceLayout {
 public:
  /// Adds a part with room for this many elements of the type that a member of KernelParams points to.
  template <auto member>
  void add(Count elements) {
    using Pointer = std::remove_reference_t<decltype(std::declval<KernelParams &>().*member)>;
    parts_[count_++] = {bytes_,
                        [](KernelParams *params, char *at) { params->*member = reinterpret_cast<Pointer>(at); }};
    bytes_ = bytes_ + elements * static_cast<int64_t>(sizeof(std::remove_pointer_t<Pointer>));
  }

  /// Adds a part for this many elements that no parameter points to, and gives its offset.
  template <class T>
  Count add_unnamed(int64_t elements) {
    const Count at = bytes_;
    bytes_ = bytes_ + elements * static_cast<int64_t>(sizeof(T));
    return at;
  }

  Count bytes() const { return bytes_; }

  /// Points the parameters to their parts of a workspace of that size.
  void bind(char *workspace, KernelParams *params) const {
    for (int i = 0; i < count_; i++) parts_[i].point(params, workspace + parts_[i].offset.value());
  }

 private:
  struct Part {
    Count offset = 0;
    void (*point)(KernelParams *params, char *at) = nullptr;
  };

  Part parts_[4];
  int count_ = 0;
  Count bytes_ = 0;
};

template <class KernelParams, int max_loops>
struct Plan {
  KernelParams params = {};  // but for the schedule, and for pointers to the workspace until it is bound
  LaunchLoop loop[max_loops];
  int loop_count = 0;
  WorkspaceLayout<KernelParams> workspace;
  std::optional<Count> tickets;  // of the first kernel, in the workspace: the call can do without
  fa_status status = FA_OK;      // else an error that core/status.h describes: no kernel of the op supports the call

  /// Points parameters and kernels to their parts of a workspace.
  void bind(char *memory) {
    workspace.bind(memory, &params);
    if (tickets) loop[0].kernels[0].tickets = reinterpret_cast<uint32_t *>(memory + tickets->value());
  }

  std::span<const LaunchLoop> loops() const { return {loop, static_cast<size_t>(loop_count)}; }

  /// Adds the kernel of an operation whose families have a single entry point, Entry::combine.
  KernelLaunch &add_only_kernel(const KernelSet &kernels, int64_t tiles) {
    LaunchLoop &added = loop[loop_count++];
    added.schedule.num_splits = added.schedule.heads_per_tile = 1;
    added.tiles = tiles;
    added.tiles_per_launch = std::min(tiles, max_blocks);
    KernelLaunch &kernel = added.kernels[added.kernel_count++];
    kernel.image = *kernels.begin();
    kernel.entry = kernels::Entry::combine;
    kernel.tile = kernel.image->tile_of(kernel.entry);
    return kernel;
  }
};

}  // namespace fa::cuda
