// What happens to a score between the product and the softmax: scale, softcap, bias, ALiBi, masks, in the order of
// fa.h. Lanes are whatever the caller says: queries of one key (prefill), or key and query pairs (decode).
#pragma once

#include <cfloat>

#include "cpu/kernel/convert.h"

namespace fa::cpu::FA_ISA {
namespace {

/// Per lane: the interval of keys it attends, its position among them (and what Row adds to that), its ALiBi slope.
/// Keys and positions may be shifted together by a constant of the lane.
struct Lane {
  const int32_t *low, *high, *position;
  const float *beyond, *slope;
};

/// Scales that may wait for the exponential: differences of products that overflow are then differences of scores that
/// leave no weight, and the factor itself stays finite.
inline bool folds(float scale) {
  return scale >= 0x1p-100f && scale <= FLT_MAX / log2_e;
}

/// What a call asks of its scores. `plain` scores need nothing but the scale, which then folds into the exponential.
struct Modifiers {
  float scale, softcap;
  bool bias, bias_first, alibi, mask, plain;

  explicit Modifiers(const Tile &tile)
      : scale(tile.attention->scale),
        softcap(tile.attention->softcap),
        bias(tile.row[0].bias != nullptr),
        bias_first(bias && tile.attention->bias_before_softcap),
        alibi(tile.alibi),
        mask(tile.row[0].mask != nullptr),
        plain(folds(scale) && softcap == 0 && !bias && !alibi && !mask) {}

  /// What a kernel's scores are multiplied by to be those of fa.h: where they are plain, they are products.
  float unit() const { return plain ? scale : 1; }
  /// The factor that takes a difference of scores to a power of two.
  float exponent_scale() const { return unit() * log2_e; }
};

/// x[i] (i < n) are scores of keys key .. key + n - 1; bias[i] and mask[i] belong to them. Where asked for, slope[i] is
/// the softcap's derivative.
[[gnu::always_inline]] inline void modify(Vec *x, int n, const Modifiers &m, const Vec *bias, const Vec *mask,
                                          const Lane &lane, int32_t key, Vec *slope = nullptr) {
  const Vec scale = Simd::set1(m.scale), none = Simd::set1(-infinity);
  for (int i = 0; i < n; i++) x[i] = Simd::mul(x[i], scale);
  if (m.bias && m.bias_first)
    for (int i = 0; i < n; i++) x[i] = Simd::add(x[i], bias[i]);
  if (m.softcap > 0) {
    // Below the normal numbers a softcap has no finite inverse.
    const float raised = m.softcap < FLT_MIN ? 0x1p64f : 1;
    const Vec cap = Simd::set1(m.softcap), inverse = Simd::set1(1 / (m.softcap * raised));
    for (int i = 0; i < n; i++) {
      const Vec y = raised != 1 ? Simd::mul(x[i], Simd::set1(raised)) : x[i];
      const Vec t = tanh(Simd::mul(y, inverse)), capped = Simd::mul(cap, t);
      if (slope != nullptr) slope[i] = Simd::sub(Simd::set1(1.0f), Simd::mul(t, t));
      // An addend of -inf masks, before the softcap too.
      x[i] = m.bias_first ? Simd::select(Simd::equal(bias[i], none), none, capped) : capped;
    }
  }
  if (m.bias && !m.bias_first)
    for (int i = 0; i < n; i++) x[i] = Simd::select(Simd::equal(bias[i], none), none, Simd::add(x[i], bias[i]));
  if (m.alibi) {
    const Vec minus_slope = Simd::sub(Simd::zero(), Simd::load(lane.slope));
    const Vec beyond = Simd::load(lane.beyond);
    for (int i = 0; i < n; i++)
      x[i] = Simd::fma(minus_slope, Simd::add(Simd::distance(lane.position, key + i), beyond), x[i]);
  }
  if (m.mask)
    for (int i = 0; i < n; i++) x[i] = Simd::select(Simd::equal(mask[i], Simd::zero()), none, x[i]);
}

/// The W x W corner of bias that belongs to lanes' rows and keys key .. key + n - 1, a vector of lanes for each key.
[[gnu::always_inline]] inline void load_bias(Vec *to, const Tile &tile, int first_row, int64_t key, int n) {
  const auto bias_of = [&](int lane) {
    return tile.row[smaller(first_row + lane, tile.rows - 1)].bias + key * tile.bias_elem;
  };
  if (tile.bias_elem == dtype_bytes(tile.bias_dtype) && n == width) {
    with_type(tile.bias_dtype, [&](auto type) {
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
[[gnu::always_inline]] inline void load_mask(Vec *to, const Tile &tile, int first_row, int64_t key, int n) {
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
