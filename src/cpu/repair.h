// Keeps masked values out of results for certain. The kernels give a masked key the weight 0, and 0 * v is 0 unless v is NaN or
// Inf: such rows, which are rare, are found by their results and done again without the masked values.
#pragma once

#include "cpu/tile.h"

namespace fa::cpu {

/// Mends the values of a partial result over keys [begin, end) that a masked value has spoiled.
void repair(const Tile &tile, int64_t begin, int64_t end, const Partial &partial);

}  // namespace fa::cpu
