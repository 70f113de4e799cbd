#include "cpu/nonfinite.h"

#include <algorithm>
#include <cmath>

#include "cpu/codes.h"
#include "cpu/tree.h"

namespace fa::cpu {
namespace {

/// Whether a row attends key j, which is within its low and high.
bool attends(const QueryTile &tile, const QueryRow &row, int64_t j) {
  return attends_in_tree(tile, static_cast<int>(&row - tile.row), j) &&
         (row.mask == nullptr || row.mask[j * tile.mask_elem] != 0) &&
         (row.bias == nullptr || load_element(row.bias + j * tile.bias_elem, tile.bias_dtype) != -HUGE_VALF);
}

/// The sum of the values of column d that are NaN or infinite, over the keys that the row attends; 0 when there are
/// none.
float nonfinite_sum(const QueryTile &tile, const QueryRow &row, int64_t d, int64_t begin, int64_t end) {
  const KeyStream &keys = tile.keys;
  float sum = 0;
  for (int64_t j = std::max<int64_t>(begin, row.low); j < std::min<int64_t>(end, row.high) && !std::isnan(sum); j++) {
    const float value = load_cached(keys.v, keys.v_factors, keys.pages, j, d);
    if (!std::isfinite(value) && attends(tile, row, j)) sum += value;
  }
  return sum;
}

/// Calls visit(i, row, d) for each element i, column d of its row, that is not finite. Rows whose sum is not finite are
/// left out: an attended score caused it, so they are correct.
template <class Visit>
void for_each_nonfinite(const QueryTile &tile, const Partial &partial, const Visit &visit) {
  const int64_t dim = tile.attention->head_dim_v;
  for (int r = 0; r < tile.rows; r++) {
    const float *values = partial.values + r * dim;
    if (!any_special(values, dim) || !std::isfinite(partial.sum[r])) continue;
    for (int64_t d = 0; d < dim; d++)
      if (!std::isfinite(values[d])) visit(r * dim + d, tile.row[r], d);
  }
}

}  // namespace

bool all_finite(const QueryTile &tile, const Partial &partial) {
  return !any_special(partial.values, tile.rows * tile.attention->head_dim_v);
}

bool propagate_attended_nonfinite(const QueryTile &tile, int64_t begin, int64_t end, const Partial &partial) {
  bool all_attended = true;
  for_each_nonfinite(tile, partial, [&](int64_t i, const QueryRow &row, int64_t d) {
    const float value = nonfinite_sum(tile, row, d, begin, end);
    if (value != 0) partial.values[i] = value;
    all_attended = all_attended && value != 0;
  });
  return all_attended;
}

void replace_by_finite(const QueryTile &tile, int64_t begin, int64_t end, const Partial &partial,
                       const Partial &clean) {
  for_each_nonfinite(tile, partial, [&](int64_t i, const QueryRow &row, int64_t d) {
    if (nonfinite_sum(tile, row, d, begin, end) == 0) partial.values[i] = clean.values[i];
  });
}

}  // namespace fa::cpu
