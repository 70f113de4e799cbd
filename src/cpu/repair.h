// Keeps masked values out of results for certain. The kernels give a masked key the weight 0, and 0 * v is 0 unless v
// is NaN or Inf. Rows so spoiled, which are rare, show in their results: they are taken from a second run in which such
// values are 0.
#pragma once

#include "cpu/tile.h"

namespace fa::cpu {

bool all_finite(const Tile &tile, const Partial &partial);

/// True when a value of the partial result over keys [begin, end) is not finite although no key that its row attends
/// says so.
bool spoiled(const Tile &tile, int64_t begin, int64_t end, const Partial &partial);

/// Replaces such values by those of `clean`, the same partial result with tile.finite_values_only.
void mend(const Tile &tile, int64_t begin, int64_t end, const Partial &partial, const Partial &clean);

}  // namespace fa::cpu
