// The modifications of a score between Q K^T and the softmax, in the order of fa.h, THE MATHEMATICS:
//
//   x = scale q.k
//   x = softcap tanh(x / softcap), with the bias added before or after it
//   x = x - slope |i - j|          ALiBi
//   x = -inf                       where the mask or a bias of -inf hides the key
//
// The CPU engine and the GPU kernels share this order. Compiled by the host's compiler and by nvcc alike.
#pragma once

namespace fa {

/// The modifications that a call asks for, besides the scale.
struct ScoreRule {
  bool bias, bias_before_softcap, softcap, alibi, mask;
};

/// Scores: one score, or all those that a caller computes together (a vector, a row of a fragment), with a method for
/// each step. finish_bias(added): adds the bias unless that is done; a bias of -inf hides the key, whatever the
/// softcap gives.
template <class Scores>
constexpr void modify(Scores &&x, const ScoreRule &rule) {
  x.multiply_by_scale();
  if (rule.bias && rule.bias_before_softcap) x.add_bias();
  if (rule.softcap) x.apply_softcap();
  if (rule.bias) x.finish_bias(rule.bias_before_softcap);
  if (rule.alibi) x.add_alibi();
  if (rule.mask) x.hide_masked();
}

}  // namespace fa
