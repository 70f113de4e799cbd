// The tensor maps of a call, for kernels that copy in boxes (TMA).
#pragma once

#include "common/images.h"
#include "core/call.h"

namespace fa::cuda {

/// Encodes q, k, v and, where it can be, out in the boxes of a tile that has them, with this many packed heads. Why it
/// cannot be, or nullptr. What the arrays of the call hold has no part in it, so a captured graph keeps the maps.
const char *encode_maps(const ForwardCall &problem, const kernels::Params &params, const kernels::TileConfig &tile,
                        int64_t heads_per_tile, kernels::TensorMaps *maps);

}  // namespace fa::cuda
