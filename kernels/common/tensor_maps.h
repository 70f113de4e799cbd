// The tensor maps (CUtensorMap) that a kernel gets beside Params, where its tile has boxes: the host encodes them for
// each call. Compiled by the host's compiler and by nvcc alike.
#pragma once

#include <cstdint>

namespace fa::kernels {

/// What cuTensorMapEncodeTiled writes and cp.async.bulk.tensor reads.
struct alignas(64) TensorMap {
  uint64_t opaque[16];
};

/// Of (element, row, head, batch entry); a box is a panel of a tile, as SharedTile has it: box_columns of some rows.
struct TensorMaps {
  TensorMap q, k, v;
};

constexpr int box_columns = 64;

}  // namespace fa::kernels
