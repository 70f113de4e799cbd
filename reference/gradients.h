// The gradients of attention in double precision, straight from "THE BACKWARD PASS" of fa.h; and the same done naively
// in the precision of the tensors.
#pragma once

#include <fa.h>

#include <array>
#include <cstdint>
#include <vector>

#include "reference/oracle.h"

namespace reference {

/// One gradient, dense, in its tensor's shape; without elements where that is absent.
struct Gradient {
  std::array<int64_t, 4> shape{};
  std::vector<char> written;  // (shape[0], shape[1]): whether the row is an output at all
  std::vector<double> value;

  // In exact gradients alone.
  std::vector<char> reached;  // an input of NaN or infinity, by the formulas: no finite result is right
  std::vector<double> bound;  // the error that docs/precision.md allows, but for the last rounding
  std::vector<double> floor;  // one rounding of each weight and of its gradient

  // Of each element's sum: its largest weight or gradient of a score, and the lengths of their factors.
  std::vector<double> largest, lengths;

  explicit operator bool() const { return !value.empty(); }
  int64_t at(int64_t i, int64_t j, int64_t k, int64_t l) const {
    return ((i * shape[1] + j) * shape[2] + k) * shape[3] + l;
  }
};

struct Gradients {
  Gradient dq, dk, dv, dbias, dsinks;
};

/// The fields of a backward call that describe attention, as forward has them.
fa_forward_args forward_args(const fa_backward_args &args);

/// The exact gradients of a call, whatever bits of accumulate it has: the contents of tensors are not added. With the
/// exact results of the forward pass, they take the place of out and lse that the call has.
Gradients gradients(const fa_desc &desc, const fa_backward_args &args, const Result *forward = nullptr);

/// The textbook's in the precision of q: products summed in f32 in plain order, probabilities and the gradients of
/// scores rounded to q's type, and each gradient to its own at the end; from the naive results of the forward pass
/// where they are given.
Gradients naive_gradients(const fa_desc &desc, const fa_backward_args &args, const Result *forward = nullptr);

}  // namespace reference
