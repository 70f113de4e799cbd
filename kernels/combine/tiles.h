// The combine kernel's blocks: a warp works on a row of the tiles that the split kernel had: block (x, y) on rows
// y * rows and after of the tile at place x.
#pragma once

#include "common/images.h"

namespace fa::kernels::combine {

/// Rows that a block combines: one a warp. Divides every family's tile_rows.
constexpr int rows = 4;

constexpr Tile tile(const Arch &, int, Entry entry) {
  if (entry != Entry::combine) return {};
  return {rows, 0, 32 * rows, 0};
}

#ifndef __CUDACC_RTC__  // which would put it on the device
inline constexpr Family family = {
    tile,
    [](const Attention &) { return f32; },
    [](const Attention &) { return "it ends the calls of other families"; },
    [](Entry, const Params &) -> const char * { return nullptr; },
    false,
};
#endif

}  // namespace fa::kernels::combine
