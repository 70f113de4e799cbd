// P and dS from the products: P = exp(x - lse), dx = P (dP - delta), and dy = dx (1 - tanh^2) under a softcap. Masked
// weights are exactly 0, whatever the scores are.
#pragma once

#include "cpu/kernel/backward/range.h"
#include "cpu/kernel/backward/staged.h"
#include "cpu/kernel/scores.h"
#include "cpu/kernel/segments.h"

namespace fa::cpu::FA_ISA {
namespace {

/// A pair of tiles: scores and gradients of scores, as [key][score_pitch].
struct TilePair {
  const BackwardQueryTile &queries;
  const KeyTile &keys;
  const StagedQueries &block;
  const ScoreMod &modifiers;
  const BackwardScratch &scratch;
  bool after_softcap;  // leave dx, not dy

  float *score(int key, int v) const { return scratch.scores + key * score_pitch + v * width; }
  float *dscore(int key, int v) const { return scratch.dscores + key * score_pitch + v * width; }
  bool special() const { return queries.special || keys.special; }
};

/// 2^power; infinity from 2^128 on, which happens where lse does not belong to the scores. Where operands are rounded,
/// `max_power` keeps the largest powers.
inline Vec weight(Vec power, Vec &max_power) {
  if constexpr (rounds_operands) {
    max_power = Simd::max(power, max_power);
    return exp2_for_bf16(power);  // whose powers of two have no bounds
  }
  return exp2(Simd::min(Simd::set1(128.0f), power));
}

/// P and dS of one vector of queries and n <= width keys from k on, with the full score_mod; the results overwrite the
/// products. Inlined where n is a constant, so that the scores stay in registers.
[[gnu::always_inline]] inline void compute_p_ds_of_keys(const TilePair &p, int v, int k, int n, bool whole,
                                                        Vec &max_power) {
  const StagedQueries &b = p.block;
  const ScoreMod &m = p.modifiers;
  const Lane lane = {b.low + v * width, b.high + v * width, b.position + v * width, b.position_overflow + v * width,
                     b.slope + v * width};
  const Vec none = Simd::set1(-infinity), scale = Simd::set1(m.scale_log2());
  const Vec neg_lse_log2 = Simd::load(b.neg_lse_log2 + v * width), neg_delta = Simd::load(b.neg_delta + v * width);
  const int32_t j = static_cast<int32_t>(p.keys.first + k);
  const bool capped = m.softcap && !p.after_softcap;
  Vec x[width], bias[width], mask[width], slope[width];
  for (int i = 0; i < n; i++) {
    x[i] = Simd::load(p.score(k + i, v));
    slope[i] = Simd::set1(1.0f);
  }
  if (!m.plain) {
    if (m.bias) load_bias(bias, p.queries, v * width, j, n);
    if (m.mask) load_mask(mask, p.queries, v * width, j, n);
    apply_score_mod(x, n, m, bias, mask, lane, j, slope);
  }
  if (!whole)
    for (int i = 0; i < n; i++) x[i] = Simd::select(Simd::between(lane.low, lane.high, j + i), x[i], none);
  for (int i = 0; i < n; i++) {
    const auto masked = Simd::equal(x[i], none);
    Vec weight_of = Simd::select(masked, Simd::zero(), weight(Simd::fma(x[i], scale, neg_lse_log2), max_power));
    Vec d = Simd::mul(weight_of, Simd::add(Simd::load(p.dscore(k + i, v)), neg_delta));
    if (capped) d = Simd::mul(d, slope[i]);
    d = Simd::select(masked, Simd::zero(), d);
    if (p.special()) {
      // dv sums rows of dout whose non-finite elements are 0: NaN and infinities come from the gradient.
      weight_of = Simd::add(weight_of, Simd::sub(d, d));
      // So do rows of q and k. A softcap makes finite scores of infinite products.
      if (capped) {
        const Vec product = Simd::load(p.score(k + i, v));
        d = Simd::add(d, Simd::select(masked, Simd::zero(), Simd::sub(product, product)));
      }
    }
    Simd::store(p.score(k + i, v), weight_of);
    Simd::store(p.dscore(k + i, v), d);
  }
}

inline void compute_p_ds_of_vector(const TilePair &p, int v, int begin, int end, bool whole, Vec &max_power) {
  int k = begin;
  for (; k + width <= end; k += width) compute_p_ds_of_keys(p, v, k, width, whole, max_power);
  if (k < end) compute_p_ds_of_keys(p, v, k, end - k, whole, max_power);
}

struct PdS {
  Vec weight, d;
};

/// Pairs of bf16: two keys and two vectors, each number of which is rounded once.
template <class S, class Of>
[[gnu::always_inline]] inline void store_square(const BackwardScratch &s, int k, int v, const Of &of) {
  Vec d[2];
  FA_UNROLL for (int i = 0; i < 2; i++) {
    const PdS first = of(k + i, v), second = of(k + i, v + 1);
    const int64_t at = (k + i) * by_queries_pitch + v * width / 2;
    Simd::store(s.weights_by_queries + at, S::rounded(first.weight, second.weight));
    d[i] = S::rounded(first.d, second.d);
    Simd::store(s.dscores_by_queries + at, d[i]);
  }
  float *by_keys = s.dscores_by_keys + k / 2 * score_pitch + v * width;
  Simd::store(by_keys, S::pair_lower(d[0], d[1]));
  Simd::store(by_keys + width, S::pair_upper(d[0], d[1]));
}

/// Stores the operands of the last three products, of keys k and k + 1 and vectors v and v + 1, or of one where an
/// operand is one element: `of(key, vector)` returns P and dS.
template <class S = Simd, class Of>
[[gnu::always_inline]] inline void store_p_ds(const BackwardScratch &s, int k, bool second_key, int v,
                                              bool second_vector, const Of &of) {
  if constexpr (S::pack == 1) {
    const PdS w = of(k, v);
    Simd::store(s.scores + k * score_pitch + v * width, w.weight);
    Simd::store(s.dscores + k * score_pitch + v * width, w.d);
  } else {
    if (second_key && second_vector) return store_square<S>(s, k, v, of);
    const PdS none = {Simd::zero(), Simd::zero()};
    PdS w[2][2];
    FA_UNROLL for (int i = 0; i < 2; i++) FA_UNROLL for (int j = 0; j < 2; j++) w[i][j] =
        (i == 0 || second_key) && (j == 0 || second_vector) ? of(k + i, v + j) : none;
    for (int i = 0; i <= (second_key ? 1 : 0); i++) {
      const int64_t at = (k + i) * by_queries_pitch + v * width / 2;
      S::store_bf16_rows(s.weights_by_queries + at, w[i][0].weight, w[i][1].weight, second_vector);
      S::store_bf16_rows(s.dscores_by_queries + at, w[i][0].d, w[i][1].d, second_vector);
    }
    for (int j = 0; j <= (second_vector ? 1 : 0); j++)
      Simd::store(s.dscores_by_keys + k / 2 * score_pitch + (v + j) * width, S::pair(w[0][j].d, w[1][j].d));
  }
}

/// P and dS of keys [begin, end) for `vectors` <= Simd::pack vectors from v on, where every pair is attended and needs
/// only the scale. False when results may be out of the operands' range. Not inlined, or GCC keeps its vectors in
/// memory.
template <int vectors>
[[gnu::noinline]] bool compute_plain_p_ds_of_keys(const TilePair &p, int begin, int end, int v) {
  const Vec scale = Simd::set1(p.modifiers.scale_log2());
  Vec neg_lse_log2[vectors], neg_delta[vectors], max_power[vectors];
  for (int i = 0; i < vectors; i++) {
    neg_lse_log2[i] = Simd::load(p.block.neg_lse_log2 + (v + i) * width);
    neg_delta[i] = Simd::load(p.block.neg_delta + (v + i) * width);
    max_power[i] = Simd::set1(-infinity);
  }
  const BackwardScratch scratch = p.scratch;
  const auto weighed = [&](int key, int vector) __attribute__((always_inline)) {
    const int64_t at = key * score_pitch + vector * width;
    const Vec w =
        weight(Simd::fma(Simd::load(scratch.scores + at), scale, neg_lse_log2[vector - v]), max_power[vector - v]);
    return PdS{w, Simd::mul(w, Simd::add(Simd::load(scratch.dscores + at), neg_delta[vector - v]))};
  };
  int k = begin;
  for (; k + Simd::pack <= end; k += Simd::pack) store_p_ds(scratch, k, true, v, vectors == 2, weighed);
  if (k < end) store_p_ds(scratch, k, false, v, vectors == 2, weighed);
  return !rounds_operands || all_in_range(Simd::max(max_power[0], max_power[vectors - 1]));
}

/// False when weights or gradients may be out of range: scores are as before then.
inline bool compute_plain_p_ds(const TilePair &p, const Segment &g, int first, int last) {
  int v = first;
  for (; v + Simd::pack <= last; v += Simd::pack)
    if (!compute_plain_p_ds_of_keys<Simd::pack>(p, g.begin, g.end, v)) return false;
  return v == last || compute_plain_p_ds_of_keys<1>(p, g.begin, g.end, v);
}

/// Whether all lanes of a vector attend all keys of a segment.
inline bool attends_all(const TilePair &p, const Segment &g, int v) {
  return p.block.full_low[v] <= p.keys.first + g.begin && p.block.full_high[v] >= p.keys.first + g.end;
}

/// P and dS of vectors [first, last) of a segment, with the full score_mod.
inline void compute_any_p_ds(const TilePair &p, const Segment &g, int first, int last) {
  Vec max_power = Simd::set1(-infinity);
  for (int v = first; v < last; v++) compute_p_ds_of_vector(p, v, g.begin, g.end, attends_all(p, g, v), max_power);
  if constexpr (Simd::pack == 2) {
    const bool ordinary = !p.special() && all_in_range(max_power);
    const auto weighed = [&](int key, int vector) {
      const Vec w = Simd::load(p.score(key, vector)), d = Simd::load(p.dscore(key, vector));
      return ordinary ? PdS{w, d} : PdS{within_bf16(w), within_bf16(d)};
    };
    for (int v = first; v < last; v += 2)
      for (int k = g.begin; k < g.end; k += 2) store_p_ds(p.scratch, k, k + 1 < g.end, v, v + 1 < last, weighed);
  }
}

/// P and dS of a segment.
inline void compute_p_ds(const TilePair &p, const Segment &g) {
  const auto plain = [&](int v) { return p.modifiers.plain && !p.special() && attends_all(p, g, v); };
  for (int v = g.first; v < g.last;) {
    int last = v + 1;
    const bool is_plain = plain(v);
    while (last < g.last && plain(last) == is_plain) last++;
    if (!is_plain || !compute_plain_p_ds(p, g, v, last)) compute_any_p_ds(p, g, v, last);
    v = last;
  }
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
