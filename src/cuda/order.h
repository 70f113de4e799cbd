// In which order a call's tiles are worked on: which of them share the device's cache, and which ones come last.
#pragma once

#include "common/images.h"
#include "core/call.h"
#include "cuda/device.h"

namespace fa::cuda {

/// Sets TileSchedulerParams::l2_section and tail_tiles, which nothing but speed depends on; the rest of it is there.
/// slots: blocks of the tile that the device works on at once.
void set_order(const Inputs &inputs, const Device &device, const kernels::TileConfig &tile, int64_t slots,
               kernels::TileSchedulerParams *schedule);

/// True when the last tiles of a sequence's queries are its longest by far, and the first of its keys.
bool is_causal_imbalanced(const Attention &attention);

/// TileSchedulerParams::l2_section of blocks that own keys, and read the queries of the heads that attend them.
int64_t key_l2_section(const Inputs &inputs, const Device &device, const kernels::TileConfig &tile, int64_t slots,
                       int64_t columns);

}  // namespace fa::cuda
