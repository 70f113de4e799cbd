// One launch of a kernel: its grid, as its tile asks for it, and what the driver is to know of it.
#pragma once

#include "common/images.h"
#include "cuda/device.h"

namespace fa::cuda {

struct Launch {
  CUkernel kernel;
  kernels::TileConfig tile;
  int64_t blocks;          // that there is work for; a persistent grid has fewer, whole clusters may have more
  int rows = 1;            // of blocks: the grid's second dimension
  int columns = 1;         // the third
  bool dependent = false;  // waits for the launch before it by itself (griddepcontrol)
};

/// The blocks that a launch starts. packed: some of its tiles have no rows.
int64_t grid_of(const Launch &launch, const Device &device, bool packed = false);

/// Stores the number of blocks in params->schedule, and launches in the current context. A kernel whose tile has no
/// boxes takes no maps.
CUresult start(const Launch &launch, const Device &device, CUstream stream, kernels::Params *params,
               kernels::TensorMaps *maps);

}  // namespace fa::cuda
