// The common part of the plans of both passes: a call's inputs as kernels take them, and the number of tiles of its
// queries.
#pragma once

#include "common/params.h"
#include "core/call.h"
#include "core/count.h"

namespace fa::cuda {

constexpr int64_t ceil_div(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

/// One that fits: of tiles there are less than 2^63 whatever the shapes.
inline int64_t number(Count count) {
  return static_cast<int64_t>(count.value());
}

/// Tiles of each sequence, or of all packed ones together: TileSchedulerParams::tiles and sequence_tiles.
struct Tiles {
  Count count;
  int64_t of_sequence;
};

/// The number of tiles for this many rows, where sequences have `longest` at most; for packed ones the lesser of two
/// bounds.
Tiles tiles_of(bool packed, int64_t batch, Count all_rows, int64_t longest, int64_t rows);

/// The kernels' view of an attention.
kernels::Attention attention_of(const Attention &attention);

kernels::View view_of(const View &view);

/// All that kernels need to know of a call's inputs.
void set_inputs(const Inputs &inputs, kernels::Params *params);

}  // namespace fa::cuda
