#include "cpu/repair.h"

#include <algorithm>
#include <cmath>

#include "cpu/element.h"

namespace fa::cpu {
namespace {

/// Of a key that causal mask, window and chunk leave to the row.
bool attends(const Tile &tile, const Row &row, int64_t j) {
  return (row.mask == nullptr || row.mask[j * tile.mask_elem] != 0) &&
         (row.bias == nullptr || load_element(row.bias + j * tile.bias_elem, tile.bias_dtype) != -HUGE_VALF);
}

/// The sum of the values of column d that are NaN or infinite, over the keys that the row attends; 0 when there are
/// none.
float special_value(const Tile &tile, const Row &row, int64_t d, int64_t begin, int64_t end) {
  const KeyStream &keys = tile.keys;
  float sum = 0;
  for (int64_t j = std::max<int64_t>(begin, row.low); j < std::min<int64_t>(end, row.high) && !std::isnan(sum); j++) {
    const float value = load_element(row_of(keys.v, keys.pages, j) + d * keys.v.element, keys.dtype);
    if (!std::isfinite(value) && attends(tile, row, j)) sum += value;
  }
  return sum;
}

/// Calls visit(i, row, d) for each element i of the result that is not finite: column d of a row whose sum is. A sum
/// that is not comes from a score that is attended: the row is what it should be.
template <class Visit>
void for_each_special(const Tile &tile, const Partial &partial, const Visit &visit) {
  const int64_t dim = tile.attention->head_dim_v;
  for (int r = 0; r < tile.rows; r++) {
    const float *values = partial.values + r * dim;
    if (!any_special(values, dim) || !std::isfinite(partial.sum[r])) continue;
    for (int64_t d = 0; d < dim; d++)
      if (!std::isfinite(values[d])) visit(r * dim + d, tile.row[r], d);
  }
}

}  // namespace

bool all_finite(const Tile &tile, const Partial &partial) {
  return !any_special(partial.values, tile.rows * tile.attention->head_dim_v);
}

bool settle(const Tile &tile, int64_t begin, int64_t end, const Partial &partial) {
  bool settled = true;
  for_each_special(tile, partial, [&](int64_t i, const Row &row, int64_t d) {
    const float value = special_value(tile, row, d, begin, end);
    if (value != 0) partial.values[i] = value;
    settled = settled && value != 0;
  });
  return settled;
}

void mend(const Tile &tile, int64_t begin, int64_t end, const Partial &partial, const Partial &clean) {
  for_each_special(tile, partial, [&](int64_t i, const Row &row, int64_t d) {
    if (special_value(tile, row, d, begin, end) == 0) partial.values[i] = clean.values[i];
  });
}

}  // namespace fa::cpu
