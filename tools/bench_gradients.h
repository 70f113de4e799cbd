// The backward pass of a case of `fa bench`.
#pragma once

#include <fa.h>

#include "bench_case.h"
#include "bench_tensors.h"
#include "library.h"

namespace fa::tool {

/// Five products instead of two.
constexpr double backward_of_forward = 2.5;

/// Gradients of q, k and v of a forward call.
class BenchGradients {
 public:
  /// Runs the forward call once, for out and lse.
  BenchGradients(const BenchCase &c, const Op &op, const fa_args &forward);
  BenchGradients(const BenchGradients &) = delete;
  BenchGradients &operator=(const BenchGradients &) = delete;

  void call(const Op &op) const { check(fa_backward(op.get(), &args_)); }

 private:
  Array lse_, dout_, dq_, dk_, dv_;
  BenchWorkspace workspace_;
  fa_backward_args args_;
};

}  // namespace fa::tool
