#include "cpu/repair.h"

#define FA_ISA baseline
#include "cpu/kernel/element.h"

#include <cmath>
#include <cstdlib>

namespace fa::cpu {

using namespace baseline;

namespace {

bool finite(const float *values, int64_t n) {
  float sum = 0;  // NaN as soon as one is not finite
  for (int64_t i = 0; i < n; i++) sum += values[i] * 0.0f;
  return sum == 0;
}

bool attends(const Tile &tile, const Row &row, int64_t j) {
  return row.low <= j && j < row.high && (row.mask == nullptr || row.mask[j * tile.mask_elem] != 0) &&
         (row.bias == nullptr || load_element(row.bias + j * tile.bias_elem, tile.bias_dtype) != -HUGE_VALF);
}

/// The finished score of one key, as kernel/scores.h has it.
float score(const Tile &tile, const Row &row, int64_t j) {
  const Attention &a = *tile.attention;
  const char *k = key_row(tile.keys, j);
  float x = 0;
  for (int64_t d = 0; d < a.head_dim; d++)
    x += load_element(row.q + d * tile.q_elem, a.q_dtype) * load_element(k + d * tile.keys.k_elem, tile.keys.dtype);
  x *= a.scale;
  const float bias = row.bias != nullptr ? load_element(row.bias + j * tile.bias_elem, tile.bias_dtype) : 0.0f;
  if (a.bias_before_softcap) x += bias;
  if (a.softcap > 0) x = a.softcap * std::tanh(x / a.softcap);
  if (!a.bias_before_softcap) x += bias;
  return x - row.slope * static_cast<float>(std::abs(static_cast<int64_t>(row.position) - j));
}

/// True when a key that the row attends explains a value that is not finite.
bool genuine(const Tile &tile, const Row &row, int64_t d, int64_t begin, int64_t end) {
  for (int64_t j = begin; j < end; j++)
    if (attends(tile, row, j) && !std::isfinite(load_element(value_row(tile.keys, j) + d * tile.keys.v_elem, tile.keys.dtype)))
      return true;
  return false;
}

float value(const Tile &tile, const Row &row, int64_t d, int64_t begin, int64_t end, float max) {
  float sum = 0;
  for (int64_t j = begin; j < end; j++) {
    if (!attends(tile, row, j)) continue;
    const float weight = std::exp2(score(tile, row, j) * static_cast<float>(M_LOG2E) - max);
    sum += weight * load_element(value_row(tile.keys, j) + d * tile.keys.v_elem, tile.keys.dtype);
  }
  return sum;
}

}  // namespace

void repair(const Tile &tile, int64_t begin, int64_t end, const Partial &partial) {
  const int64_t dim = tile.attention->head_dim_v;
  for (int r = 0; r < tile.rows; r++) {
    float *values = partial.values + r * dim;
    // A sum that is not finite comes from a score that is attended: the row is what it should be.
    if (finite(values, dim) || !std::isfinite(partial.sum[r])) continue;
    const Row &row = tile.row[r];
    for (int64_t d = 0; d < dim; d++)
      if (!std::isfinite(values[d]) && !genuine(tile, row, d, begin, end))
        values[d] = value(tile, row, d, begin, end, partial.max[r]);
  }
}

}  // namespace fa::cpu
