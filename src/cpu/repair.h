// Keeps masked values out of results for certain, and makes those that are attended show as fa.h says. The kernels give
// a masked key the weight 0, and 0 * v is 0 unless v is NaN or Inf; so is the product of Inf and an attended weight too
// small for a float. Such elements, which are rare, show in the results.
#pragma once

#include "cpu/tile.h"

namespace fa::cpu {

bool all_finite(const Tile &tile, const Partial &partial);

/// Makes each element over keys [begin, end) that is not finite what the values that its row attends give: their sum of
/// NaN and infinities. False when they have none, for some element: it is the doing of masked ones, and stays for mend.
bool settle(const Tile &tile, int64_t begin, int64_t end, const Partial &partial);

/// Replaces those elements by those of `clean`, the same partial result with tile.finite_values_only.
void mend(const Tile &tile, int64_t begin, int64_t end, const Partial &partial, const Partial &clean);

}  // namespace fa::cpu
