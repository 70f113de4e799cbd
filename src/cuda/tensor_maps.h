// The tensor maps of a call, for kernels that copy in boxes (TMA).
#pragma once

#include "common/images.h"
#include "core/call.h"

namespace fa::cuda {

/// Why the tensors of a call have no maps in the boxes of a tile that has them, with this many packed heads; nullptr if
/// they have.
const char *unmappable_reason(const Inputs &inputs, const kernels::Params &params, const kernels::TileConfig &tile,
                              int64_t heads_per_tile);

/// Encodes those maps: of q, k, v and, where it can be, of out (a backward call's dout). nullptr, or why the driver
/// refuses one. They do not depend on the contents of arrays, so a captured graph keeps the maps.
const char *encode_maps(const Inputs &inputs, const View &out, const kernels::TileConfig &tile, int64_t heads_per_tile,
                        kernels::TensorMaps *maps);

}  // namespace fa::cuda
