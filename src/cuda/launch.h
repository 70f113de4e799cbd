// Plans to the driver: the grid of each kernel, as its tile asks for it, and its launches.
#pragma once

#include "cuda/plan.h"
#include "cuda/resident.h"

namespace fa::cuda {

/// The blocks of a grid's first dimension where there is work for this many: fewer if it is persistent, more to fill
/// clusters. packed: some of its tiles have no rows.
int64_t grid_of(const kernels::TileConfig &tile, int64_t blocks, const Device &device, bool packed = false);

/// Launches the kernels of some loops one after another, in the current context, where the modules of `kernels` are
/// resident. params: the plan's, whose schedule is set for each launch. FA_OK, or an error that core/status.h
/// describes.
fa_status launch(std::span<const LaunchLoop> loops, const KernelSet &kernels, const Resident &resident,
                 const Device &device, CUstream stream, kernels::Params *params);

}  // namespace fa::cuda
