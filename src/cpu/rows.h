// The rows of a tile, as far as a call's inputs describe them.
#pragma once

#include "cpu/sequences.h"
#include "cpu/tile.h"

namespace fa::cpu {

/// What all rows of a call have in common.
void describe_inputs(Tile &tile, const Inputs &inputs);

/// A query of a head of sequence b, which attends the keys of `interval`. Leaves out and lse alone.
void describe_row(Row &row, const Inputs &inputs, const Sequence &s, int64_t b, int64_t query, int64_t head,
                  Sequence::Interval interval);

}  // namespace fa::cpu
