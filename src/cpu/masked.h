// Blocks of keys that a boolean mask, or a bias of -inf, masks for all rows: they are skipped before keys and values
// are read. A block that is attended is mostly recognised by the first keys of its first row.
#pragma once

#include "cpu/element.h"
#include "cpu/tile.h"

namespace fa::cpu {

// Of internal linkage, as kernels are compiled for an ISA each.
namespace {

/// True when one of n numbers, `stride` bytes apart, has other bits than `none`.
template <class Bits>
inline bool any_other(const char *from, int64_t stride, int64_t n, Bits none) {
  constexpr int64_t together = 16;
  int64_t i = 0;
  if (stride == sizeof(Bits))
    for (; i + together <= n; i += together) {
      Bits x[together], other = 0;
      __builtin_memcpy(x, from + i * stride, sizeof x);
      for (const Bits bits : x) other = static_cast<Bits>(other | (bits ^ none));
      if (other != 0) return true;
    }
  for (; i < n; i++) {
    Bits bits;
    __builtin_memcpy(&bits, from + i * stride, sizeof bits);
    if (bits != none) return true;
    if (stride == 0) break;
  }
  return false;
}

/// True when the mask alone, or the bias alone, masks all keys [begin, end) for a row.
inline bool row_masked(const QueryTile &tile, const QueryRow &row, int64_t begin, int64_t end) {
  const int64_t n = end - begin;
  if (n <= 0) return true;
  if (row.mask != nullptr && !any_other(row.mask + begin * tile.mask_elem, tile.mask_elem, n, uint8_t{0})) return true;
  if (row.bias == nullptr) return false;
  const char *bias = row.bias + begin * tile.bias_elem;
  return with_compute_type(tile.bias_dtype, [&](auto type) {
    return !any_other(bias, tile.bias_elem, n, type.from_float(-__builtin_inff()));
  });
}

/// True when the mask or the bias masks all keys [begin, end) for those of rows first .. first + n - 1 that the tile
/// has. False where the call has neither, whatever the rows attend.
inline bool block_masked(const QueryTile &tile, int first, int n, int64_t begin, int64_t end) {
  if (tile.row[first].mask == nullptr && tile.row[first].bias == nullptr) return false;
  const QueryRow *before = nullptr;
  for (int i = first; i < first + n && i < tile.rows; i++) {
    const QueryRow &row = tile.row[i];
    const auto same = [&](const QueryRow &r) {
      return r.mask == row.mask && r.bias == row.bias && r.low == row.low && r.high == row.high;
    };
    if (before != nullptr && same(*before)) continue;  // one mask for all rows
    if (!row_masked(tile, row, begin > row.low ? begin : row.low, end < row.high ? end : row.high)) return false;
    before = &row;
  }
  return true;
}

}  // namespace
}  // namespace fa::cpu
