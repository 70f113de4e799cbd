// score_mod: scale, softcap, bias, ALiBi and masks of scores between the product and the softmax, in the order of fa.h.
// The caller defines the lanes: queries of one key (prefill), or key and query pairs (decode).
#pragma once

#include <cfloat>

#include "core/score.h"
#include "cpu/kernel/convert.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Per lane: the interval of keys it attends, its position among them (with its overflow, see QueryRow), its ALiBi
/// slope. Keys and positions may be shifted together by a constant of the lane.
struct Lane {
  const int32_t *low, *high, *position;
  const float *position_overflow, *slope;
};

/// Whether the scale may be folded into exp2: where differences of products overflow, those of scores then leave no
/// weight, and the factor itself is finite.
inline bool scale_folds_into_exp2(float scale) {
  return scale >= 0x1p-100f && scale <= FLT_MAX / log2_e;
}

/// The score_mod of a call. `plain` scores need only the scale, which is then folded into exp2.
struct ScoreMod : ScoreRule {
  float scale, cap;
  bool plain;

  explicit ScoreMod(const QueryTile &tile)
      : ScoreRule{tile.row[0].bias != nullptr, tile.attention->bias_before_softcap, tile.attention->softcap > 0,
                  tile.alibi, tile.row[0].mask != nullptr},
        scale(tile.attention->scale),
        cap(tile.attention->softcap),
        plain(scale_folds_into_exp2(scale) && !softcap && !bias && !alibi && !mask) {}

  /// The factor from a kernel's scores to those of fa.h: plain scores are kept as products.
  float score_scale() const { return plain ? scale : 1; }
  /// The factor from a difference of a kernel's scores to a power of two.
  float scale_log2() const { return score_scale() * log2_e; }
};

/// Scores x[i] (i < n) of keys key .. key + n - 1, with the steps of core/score.h; bias[i] and mask[i] belong to them.
/// Where asked for, slope[i] is the softcap's derivative; where given, distances are those of ALiBi, a vector each.
struct ScoreVectors {
  Vec *x;
  int n;
  const ScoreMod &m;
  const Vec *bias, *mask;
  const Lane &lane;
  int32_t key;
  Vec *slope;
  const float *distances;

  template <class F>
  [[gnu::always_inline]] void each(F f) {
    for (int i = 0; i < n; i++) f(x[i], i);
  }

  [[gnu::always_inline]] void multiply_by_scale() {
    const Vec scale = Simd::set1(m.scale);
    each([&](Vec &s, int) { s = Simd::mul(s, scale); });
  }
  [[gnu::always_inline]] void add_bias() {
    each([&](Vec &s, int i) { s = Simd::add(s, bias[i]); });
  }
  [[gnu::always_inline]] void apply_softcap() {
    // Below the normal numbers a softcap has no finite inverse.
    const float raised = m.cap < FLT_MIN ? 0x1p64f : 1;
    const Vec cap = Simd::set1(m.cap), inverse = Simd::set1(1 / (m.cap * raised));
    each([&](Vec &s, int i) {
      const Vec y = raised != 1 ? Simd::mul(s, Simd::set1(raised)) : s;
      const Vec t = tanh(Simd::mul(y, inverse));
      if (slope != nullptr) slope[i] = Simd::sub(Simd::set1(1.0f), Simd::mul(t, t));
      s = Simd::mul(cap, t);
    });
  }
  [[gnu::always_inline]] void finish_bias(bool added) {
    const Vec none = Simd::set1(-infinity);
    each([&](Vec &s, int i) { s = Simd::select(Simd::equal(bias[i], none), none, added ? s : Simd::add(s, bias[i])); });
  }
  [[gnu::always_inline]] void add_alibi() {
    const Vec minus_slope = Simd::sub(Simd::zero(), Simd::load(lane.slope));
    const Vec position_overflow = Simd::load(lane.position_overflow);
    each([&](Vec &s, int i) {
      const Vec distance = distances != nullptr ? Simd::load(distances + i * width)
                                                : Simd::add(Simd::distance(lane.position, key + i), position_overflow);
      s = Simd::fma(minus_slope, distance, s);
    });
  }
  [[gnu::always_inline]] void hide_masked() {
    const Vec none = Simd::set1(-infinity);
    each([&](Vec &s, int i) { s = Simd::select(Simd::equal(mask[i], Simd::zero()), none, s); });
  }
};

[[gnu::always_inline]] inline void apply_score_mod(Vec *x, int n, const ScoreMod &m, const Vec *bias, const Vec *mask,
                                                   const Lane &lane, int32_t key, Vec *slope = nullptr,
                                                   const float *distances = nullptr) {
  modify(ScoreVectors{x, n, m, bias, mask, lane, key, slope, distances}, m);
}

/// The W x W corner of bias that belongs to lanes' rows and keys key .. key + n - 1, a vector of lanes for each key.
[[gnu::always_inline]] inline void load_bias(Vec *to, const QueryTile &tile, int first_row, int64_t key, int n) {
  const auto bias_of = [&](int lane) {
    return tile.row[smaller(first_row + lane, tile.rows - 1)].bias + key * tile.bias_elem;
  };
  if (tile.bias_elem == dtype_bytes(tile.bias_dtype) && n == width) {
    with_compute_type(tile.bias_dtype, [&](auto type) {
      for (int lane = 0; lane < width; lane++) to[lane] = load_vector<decltype(type)::dtype>(bias_of(lane));
    });
  } else {
    for (int lane = 0; lane < width; lane++) {
      float row[width] = {};
      load_row(row, bias_of(lane), tile.bias_elem, tile.bias_dtype, n);
      to[lane] = Simd::load(row);
    }
  }
  Simd::transpose(to);
}

/// The same for the boolean mask: 0 where a lane does not attend.
[[gnu::always_inline]] inline void load_mask(Vec *to, const QueryTile &tile, int first_row, int64_t key, int n) {
  for (int lane = 0; lane < width; lane++) {
    const char *from = tile.row[smaller(first_row + lane, tile.rows - 1)].mask + key * tile.mask_elem;
    if (tile.mask_elem == 1 && n == width) {
      to[lane] = Simd::load_bool(reinterpret_cast<const uint8_t *>(from));
    } else {
      float row[width] = {};
      for (int i = 0; i < n; i++) row[i] = from[i * tile.mask_elem] != 0 ? 1.0f : 0.0f;
      to[lane] = Simd::load(row);
    }
  }
  Simd::transpose(to);
}

}  // namespace
}  // namespace fa::cpu::FA_ISA
