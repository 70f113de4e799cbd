// The modifications of single scores (core/score.h), in f32: of one pair of a query and a key.
#pragma once

#include "collective/epilogue.cuh"
#include "common/element.cuh"
#include "core/score.h"

namespace fa::kernels {

__device__ inline ScoreRule score_rule(const Params &p) {
  return {p.bias.data != nullptr, p.bias_before_softcap != 0, p.softcap > 0, p.alibi_slopes.data != nullptr,
          p.mask.data != nullptr};
}

/// The inputs of a row's scores in addition to its products.
struct RowScores {
  Interval keys;            // that causal mask, window and chunk leave it; empty for a row that does not exist
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

/// The same in calls that may have a tree of new tokens.
__device__ inline RowScores row_scores_with_tree(const Params &p, const Sequence &s, Row row) {
  RowScores r = row_scores(p, s, row);
  if (p.tree_mask.data) {
    r.keys = attended_with_tree(p, s, row.query);
    r.position = position_of_token(p, s, row.query);
  }
  return r;
}

/// A score, with the steps of core/score.h. Tensors are read only where the row attends the key so far.
struct Score {
  const Params &p;
  const RowScores &row;
  int32_t key;
  int64_t position;  // of the key
  float x;           // the product, then the score
  bool attends;
  float bias = 0;
  float derivative = 1;  // of the score by the product, in units of the scale

  __device__ Score(const Params &params, const RowScores &of_row, float product, int32_t of_key)
      : Score(params, of_row, product, of_key, of_key, true) {}

  /// shown: by the tree of new tokens.
  __device__ Score(const Params &params, const RowScores &of_row, float product, int32_t of_key, int64_t of_position,
                   bool shown)
      : p(params),
        row(of_row),
        key(of_key),
        position(of_position),
        x(product),
        attends(shown && of_row.keys.holds(of_key)) {
    if (attends && row.mask) attends = row.mask[key * p.mask.stride[3]] != 0;
    if (attends && row.bias) bias = load_element(row.bias + key * p.bias.stride[3], p.bias_dtype);
    attends = attends && bias != -infinity;
    modify(*this, score_rule(p));
  }

  __device__ void multiply_by_scale() { x = p.scale * x; }
  __device__ void add_bias() { x += bias; }
  __device__ void apply_softcap() {
    const float t = tanhf(x / p.softcap);
    x = p.softcap * t;
    derivative = (1 - t) * (1 + t);
  }
  __device__ void add_alibi() { x -= row.slope * fabsf(float(row.position - position)); }
  __device__ void finish_bias(bool added) {
    if (!added) x += bias;
  }
  __device__ void hide_masked() {}  // see attends

  /// -inf where the row does not attend the key.
  __device__ float value() const { return attends ? x : -infinity; }
};

}  // namespace fa::kernels
