// The rows of a query tile, from a call's inputs.
#pragma once

#include "cpu/sequences.h"
#include "cpu/tile.h"

namespace fa::cpu {

/// Fills in the fields that all rows of a call share.
void describe_inputs(QueryTile &tile, const Inputs &inputs);

/// Sets the row's position among the keys, clamped to the range of QueryRow::position.
void set_position(QueryRow &row, int64_t position);

/// Describes a query of a head of sequence b that attends `keys`. Does not touch out and lse.
void describe_row(QueryRow &row, const Inputs &inputs, const Sequence &s, int64_t b, int64_t query, int64_t head,
                  Interval keys);

}  // namespace fa::cpu
