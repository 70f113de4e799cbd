// The order in which blocks of keys add to dq where one loop computes all gradients.
#pragma once

#include "core/call.h"
#include "cuda/device.h"
#include "cuda/image.h"

namespace fa::cuda {

/// Whether blocks wait little enough for each other; judged by one sequence, so that its bits do not depend on the
/// batch.
bool fixed_order_pays(const BackwardCall &call, const Image &image, const kernels::TileConfig &tile,
                      const Device &device);

}  // namespace fa::cuda
