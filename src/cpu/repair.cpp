#include "cpu/repair.h"

#define FA_ISA baseline
#include <cmath>

#include "cpu/kernel/element.h"

namespace fa::cpu {

using namespace baseline;

namespace {

bool finite(const float *values, int64_t n) {
  uint32_t any = 0;  // its sign is set once an exponent was all ones
  for (int64_t i = 0; i < n; i++) any |= (float_to_bits(values[i]) & 0x7f800000) + 0x800000;
  return any >> 31 == 0;
}

bool attends(const Tile &tile, const Row &row, int64_t j) {
  return row.low <= j && j < row.high && (row.mask == nullptr || row.mask[j * tile.mask_elem] != 0) &&
         (row.bias == nullptr || load_element(row.bias + j * tile.bias_elem, tile.bias_dtype) != -HUGE_VALF);
}

/// True when a key that the row attends explains why element d is not finite.
bool genuine(const Tile &tile, const Row &row, int64_t d, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; j++)
    if (attends(tile, row, j) &&
        !std::isfinite(load_element(value_row(tile.keys, j) + d * tile.keys.v_elem, tile.keys.dtype)))
      return true;
  return false;
}

/// Calls found(values, d) for each spoiled element until it returns true; whether it did.
template <class Found>
bool find_spoiled(const Tile &tile, int64_t begin, int64_t end, const Partial &partial, const Found &found) {
  const int64_t dim = tile.attention->head_dim_v;
  for (int r = 0; r < tile.rows; r++) {
    const float *values = partial.values + r * dim;
    // A sum that is not finite comes from a score that is attended: the row is what it should be.
    if (finite(values, dim) || !std::isfinite(partial.sum[r])) continue;
    for (int64_t d = 0; d < dim; d++)
      if (!std::isfinite(values[d]) && !genuine(tile, tile.row[r], d, begin, end) && found(r * dim + d)) return true;
  }
  return false;
}

}  // namespace

bool all_finite(const Tile &tile, const Partial &partial) {
  return finite(partial.values, tile.rows * tile.attention->head_dim_v);
}

bool spoiled(const Tile &tile, int64_t begin, int64_t end, const Partial &partial) {
  return find_spoiled(tile, begin, end, partial, [](int64_t) { return true; });
}

void mend(const Tile &tile, int64_t begin, int64_t end, const Partial &partial, const Partial &clean) {
  find_spoiled(tile, begin, end, partial, [&](int64_t i) {
    partial.values[i] = clean.values[i];
    return false;
  });
}

}  // namespace fa::cpu
