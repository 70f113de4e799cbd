// What happens to a score between the product and the softmax: scale, softcap, bias, ALiBi and masks, in the order of
// fa.h, THE MATHEMATICS.
#pragma once

#include "common/element.cuh"
#include "common/finish.cuh"

namespace fa::kernels {

/// The inputs of a row's scores in addition to its products.
struct RowScores {
  Interval keys;            // that causal mask, window and chunk leave it; empty for a row that is none
  int64_t position;         // of the query among the keys
  float slope;              // ALiBi
  const char *bias, *mask;  // at key 0; null when absent
};

__device__ inline RowScores row_scores(const Params &p, const Sequence &s, Row row) {
  const auto at = [&](const View &view) {
    return view.data ? view.data + s.index * view.stride[0] + row.head * view.stride[1] + row.query * view.stride[2]
                     : nullptr;
  };
  RowScores r;
  r.keys = attended(p, s, row.query);
  r.position = row.query + s.offset;
  r.slope = 0;
  if (p.alibi_slopes.data) {
    r.slope = *reinterpret_cast<const float *>(p.alibi_slopes.data + s.index * p.alibi_slopes.stride[0] +
                                               row.head * p.alibi_slopes.stride[1]);
  }
  r.bias = at(p.bias);
  r.mask = at(p.mask);
  return r;
}

/// The score of a key, -inf when the row does not attend it, which *attends says.
__device__ inline float finished_score(const Params &p, const RowScores &row, float product, int32_t key,
                                       bool *attends) {
  *attends = row.keys.holds(key);
  if (*attends && row.mask) *attends = row.mask[key * p.mask.stride[3]] != 0;
  float addend = 0;
  if (*attends && row.bias) addend = load_element(row.bias + key * p.bias.stride[3], p.bias_dtype);
  *attends = *attends && addend != -infinity;
  float x = p.scale * product;
  if (p.bias_before_softcap) x += addend;
  if (p.softcap > 0) x = p.softcap * tanhf(x / p.softcap);
  if (!p.bias_before_softcap) x += addend;
  if (p.alibi_slopes.data) x -= row.slope * fabsf(float(row.position - key));
  return *attends ? x : -infinity;
}

}  // namespace fa::kernels
