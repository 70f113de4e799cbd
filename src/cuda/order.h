// In which order a call's tiles are worked on: which of them share the device's cache, and which ones come last.
#pragma once

#include "common/images.h"
#include "core/problem.h"
#include "cuda/device.h"

namespace fa::cuda {

/// Sets Schedule::group and late_tiles, which nothing but speed depends on; the rest of it is there. slots: blocks of
/// the tile that the device works on at once.
void set_order(const Inputs &inputs, const Device &device, const kernels::Tile &tile, int64_t slots,
               kernels::Schedule *schedule);

/// The same of blocks that own keys, and read the queries of the heads that attend them.
void set_order_of_keys(const Inputs &inputs, const Device &device, int64_t columns, kernels::Schedule *schedule);

}  // namespace fa::cuda
