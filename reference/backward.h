// A case of the backward pass, ready for fa_backward: the inputs of an Instance, out and lse as the oracle has them,
// and the gradients. Elements that the call need not read are NaN, rows without keys left included.
#pragma once

#include "reference/instance.h"

namespace reference {

class BackwardInstance : public Instance {
 public:
  explicit BackwardInstance(const Case &c, Guard guard = Guard::end);

  fa_backward_args call;
  Tensor dout, dlse, delta, dq, dk, dv, dbias, dsinks;

  /// A gradient that the call computes.
  struct Output {
    const char *name;
    char letter;  // in Case::accumulate
    const Tensor *tensor;
  };
  std::vector<Output> outputs() const;
  bool adds_to(const Output &output) const { return c.accumulate.find(output.letter) != std::string::npos; }

  /// The value of an element before a call that adds to it; n counts in index order.
  double before(const Output &output, int64_t n) const;

  /// The rows (shape[0], shape[1]) of a gradient that the call writes.
  std::vector<char> rows_of(const Output &output) const;

  /// Points call at the tensors and arrays; to be called again after one was replaced.
  void bind_call();

  /// Takes out and lse for inputs as they are now: those of a forward pass.
  void accept_results();

  /// Fills the gradients with their contents before a call: the pattern, or numbers to add to.
  void clear_gradients() const;

  /// "" when the memory outside a gradient's rows still holds the pattern, and inputs are as they were built.
  std::string gradients_untouched() const;

  /// The gradients as bytes of their elements in index order, to compare two calls bit by bit.
  std::vector<char> gradient_bits() const;

 private:
  void make_results(Guard guard);
  void make_gradients(Guard guard);
  std::vector<char> read_bytes() const;

  std::vector<char> as_built_;
};

}  // namespace reference
