// The rows that decode processes together, and their online softmax.
#pragma once

#include "cpu/kernel/vector_math.h"
#include "cpu/tile.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Maximum rows of a group.
constexpr int group_rows = Simd::group_rows;

/// Rows of one group, their lanes, and their running softmax.
struct RowGroup {
  int first, last, rows;  // rows is a power of two: rows past the last repeat it
  int head;               // of the tile's
  const float *q[group_rows];
  int32_t full_low, full_high;                                   // every row attends [full_low, full_high)
  alignas(64) int32_t low[width], high[width], position[width];  // lane i: row i % rows, less its key's i / rows
  alignas(64) float position_overflow[width], slope[width];
  alignas(64) float max[width];  // equal for all lanes of a row
  float sum[group_rows];
};

/// Rows of the next group, where that many are left: where more than half of them would be repeated, fewer.
inline int rows_of_group(int left) {
  int rows = group_rows;
  while (rows > 1 && left * 4 < rows * 3) rows /= 2;
  return rows;
}

inline int group_count(int rows) {
  int count = 0;
  for (; rows > 0; rows -= rows_of_group(rows)) count++;
  return count;
}

inline const QueryRow &group_row(const QueryTile &tile, const RowGroup &g, int i) {
  return tile.row[smaller(g.first + i, g.last)];
}

/// Initialises a group of rows [first, end) of head `head`.
inline void begin_group(const QueryTile &tile, RowGroup &g, int head, int first, int end, float *q) {
  const int64_t dim = tile.attention->head_dim;
  g.first = first;
  g.last = end - 1;
  g.rows = rows_of_group(end - first);
  g.head = head;
  for (int r = 0; r < g.rows; r++) {
    g.q[r] = q + smaller(first + r, g.last) * dim;
    g.sum[r] = 0;
  }
  g.full_low = INT32_MIN;
  g.full_high = INT32_MAX;
  for (int r = 0; r < g.rows; r++) {
    g.full_low = larger(g.full_low, group_row(tile, g, r).low);
    g.full_high = smaller(g.full_high, group_row(tile, g, r).high);
  }
  g.full_high = smaller(g.full_high, tile.new_keys.first);
  for (int i = 0; i < width; i++) {
    const QueryRow &row = group_row(tile, g, i % g.rows);
    const int shift = i / g.rows;
    g.low[i] = row.low - shift;
    g.high[i] = row.high - shift;
    g.position[i] = row.position - shift;
    g.position_overflow[i] = row.position_overflow;
    g.slope[i] = row.slope;
    g.max[i] = -infinity;
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
