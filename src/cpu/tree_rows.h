// The rows of a query tile whose tokens form a tree, from a call's inputs.
#pragma once

#include "cpu/sequences.h"
#include "cpu/tile.h"

namespace fa::cpu {

/// Checks the depths of every sequence of a call that check_sequences has passed.
fa_status check_depths(const ForwardCall &call);

/// The new keys of a sequence.
NewKeys new_keys_of(const ForwardCall &call, const Sequence &s);

/// Describes a query of a head; the result is the range from the first key that it attends to the last.
Interval describe_tree_row(TreeRow &row, const ForwardCall &call, const NewKeys &keys, const Sequence &s, int64_t query,
                           int64_t head);

}  // namespace fa::cpu
