// NaN and infinities of v in results: masked ones must not appear, attended ones must, as fa.h says. The kernels give a
// masked key the weight 0, and 0 * v is NaN if v is NaN or Inf, as is the product of Inf and an attended weight that
// underflows. Results with such elements, which are rare, are corrected here.
#pragma once

#include "cpu/tile.h"

namespace fa::cpu {

bool all_finite(const QueryTile &tile, const Partial &partial);

/// Sets each element over keys [begin, end) that is not finite to the sum of the NaN and infinities that its row
/// attends. False when some element has none: masked values caused it, and it is left to replace_by_finite.
bool propagate_attended_nonfinite(const QueryTile &tile, int64_t begin, int64_t end, const Partial &partial);

/// Replaces the other elements that are not finite by those of `clean`, the partial result with finite_values_only.
void replace_by_finite(const QueryTile &tile, int64_t begin, int64_t end, const Partial &partial, const Partial &clean);

}  // namespace fa::cpu
