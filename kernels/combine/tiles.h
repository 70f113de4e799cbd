// The combine kernel's blocks: a warp works on a row of the tiles that the split kernel had.
#pragma once

#include "common/images.h"

namespace fa::kernels::combine {

/// Rows that a block combines at a time: one a warp.
constexpr int rows = 4;

constexpr Tile tile(int, int, Entry) {
  return {rows, 0, 32 * rows, 0};
}

}  // namespace fa::kernels::combine
