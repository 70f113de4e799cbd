// The tensor maps (CUtensorMap) that a kernel gets in addition to Params, where its tile has boxes: the host encodes
// them for each call. Compiled by the host's compiler and by nvcc alike.
#pragma once

#include <cstdint>

namespace fa::kernels {

/// A CUtensorMap: written by cuTensorMapEncodeTiled, read by cp.async.bulk.tensor.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

/// A box is a panel of a tile, as SharedTile has it: Tile::box_columns of some rows.
struct TensorMaps {
  TensorMap q;     // of (element, head, row, batch entry): the rows of a box are its packed heads' of some queries
  TensorMap k, v;  // of (element, row, head, batch entry); from pages of (element, row of a page, head, page)
  TensorMap out;   // of (element, head, row, batch entry): a warp's rows of one head
  int32_t rows_of_keys;  // of a box of keys or values: a tile's, or as many as are on one page whatever the tile; 0:
                         // boxes do not reach them, and there are no maps
  int32_t rows_of_out;   // of a box of out; 0: there is no map of it
};

}  // namespace fa::kernels
