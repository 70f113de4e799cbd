// The rows of consecutive tokens of fa_append in the tensor that they are read from and in the one that they are
// written to.
#pragma once

#include "cpu/tile.h"

namespace fa::cpu {

/// Strides are in bytes.
struct TokenBox {
  const char *from;
  char *to;
  fa_dtype from_dtype, to_dtype;
  int64_t tokens, heads, dim;
  int64_t from_token, from_head, from_elem;
  int64_t to_token, to_head, to_elem;

  /// The rows of one of its tokens.
  TokenRows rows(int64_t token) const {
    return {from + token * from_token,
            to + token * to_token,
            from_head,
            to_head,
            from_elem,
            to_elem,
            from_dtype,
            to_dtype,
            heads,
            dim};
  }
};

/// Columns first .. first + dim - 1 of the rows of two tensors.
struct Columns {
  const View &from, &to;
  int64_t first, dim;

  TokenBox box(const char *from_row, char *to_row, int64_t tokens, int64_t heads) const {
    return {from_row + first * from.stride[3],
            to_row + first * to.stride[3],
            from.dtype,
            to.dtype,
            tokens,
            heads,
            dim,
            from.stride[1],
            from.stride[2],
            from.stride[3],
            to.stride[1],
            to.stride[2],
            to.stride[3]};
  }
};

/// Writes a box as it is: elements that have the destination's type keep their bits, others are converted.
void copy_box(const IsaKernels &kernels, TokenBox box);

}  // namespace fa::cpu
