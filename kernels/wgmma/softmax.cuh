// The softmax that goes along with the tiles. Weights are computed before their sizes are looked at: a row's reference
// m is set from its first scores, and from then on moves when the weights of a tile, which are summed anyway, come to
// too much. They are scaled then, as no score is needed for that; so is O, but later, as products still add to it.
#pragma once

#include <cfloat>

#include "common/weights.cuh"
#include "wgmma/block.cuh"

namespace fa::kernels::wgmma {

/// What a lane's weights of a row come to at most in a tile, and therefore each of them. It is out of reach of equal
/// weights of 2^lift, so that m does not move at every tile.
constexpr float most(Dtype type) {
  return type == f16 ? 65504 : 256;
}
template <class B>
constexpr bool rests = B::keys / 4 * (1 << int(lift(B::dtype))) < most(B::dtype);

/// Of each of a lane's rows: -m, as it is added, and this lane's part of l. exact(r) says whether row r is.
template <class B>
struct OnlineSoftmax {
  using Rows = typename B::Rows;
  using Scores = typename B::Scores;
  static_assert(rests<B>);

  /// -m of a row that has no weights yet: finite, as 2^(-inf - m) is 0, not NaN. And of a row that will have none.
  static constexpr float to_come = FLT_MAX, none = -FLT_MAX;

  Rows minus_m, l;

  /// has_keys(r): row r attends any.
  template <class HasKeys>
  __device__ explicit OnlineSoftmax(HasKeys has_keys) {
    unroll<Rows::rows>([&](int r) { minus_m[r] = has_keys(r) ? to_come : none; });
    l.fill(0);
  }

  /// m = rowmax S of rows without weights, m' = max(m, rowmax S) and l = l a of exact ones, or of all if so asked:
  /// where scores rise by more than weights can be scaled by. True if any has moved; O is then to be multiplied by *a.
  template <class Exact>
  __device__ __forceinline__ bool begin(const Scores &s, float c, Exact exact, bool all, Rows *a) {
    constexpr float above = lift(B::dtype) + slack(B::dtype);
    const auto takes_part = [&](int r) { return all || minus_m[r] == to_come || exact(r); };
    a->fill(1);
    bool any = false;
    unroll<Rows::rows>([&](int r) { any |= takes_part(r); });
    if (!__any_sync(~0u, any)) return false;
    const Rows top = s.row_max();
    bool moves = false;
    unroll<Rows::rows>([&](int r) { moves |= takes_part(r) && exponent(top[r], c, minus_m[r], exact(r)) > above; });
    moves = __any_sync(~0u, moves);
    if (!moves) return false;
    unroll<Rows::rows>([&](int r) {
      const float unit = exact(r) ? c : 1, before = minus_m[r];
      const float t = max_over_lanes<4>(top[r]) * (exact(r) ? 1 : c);
      const float lifted = fabsf(t * unit) < far ? __fdividef(lift(B::dtype), unit) - t : -t;
      minus_m[r] = takes_part(r) && (t + before) * unit > above ? lifted : before;
      (*a)[r] = ex2_approx_ftz((minus_m[r] - before) * unit);
      // Sums of weights that were not exact, though they had to be, are worth nothing: the row is worked on again.
      const bool lost = !exact(r) && fabsf(before) >= far && l[r] != 0;
      l[r] *= lost ? nan_value() : (*a)[r];
    });
    return true;
  }

  /// P = 2^(c S - m) in place of S.
  template <class Exact>
  __device__ __forceinline__ void exponentiate(Scores &s, float c, Exact exact) const {
    s.for_each([&](float &x, int r, int) { x = ex2_approx_ftz(exponent(x, c, minus_m[r], exact(r))); });
  }

  /// m' = max(m, m + log2(rowmax P) - lift), P = P a and l = l a, once the weights of a row of the warp come to too
  /// much. Then l = l + rowsum P. True if any m has moved; O is then to be multiplied by *a, which Begun says is set.
  template <bool Begun, class Exact>
  __device__ __forceinline__ bool add_weights(Scores &p, Exact exact, Rows *a) {
    Rows sums = p.row_sums();
    bool moved = false;
    unroll<Rows::rows>([&](int r) { moved |= sums[r] > most(B::dtype) && !exact(r); });
    moved = __any_sync(~0u, moved);
    if (moved) lower<Begun>(p, exact, &sums, a);
    unroll<Rows::rows>([&](int r) { l[r] += sums[r]; });
    return moved;
  }

 private:
  template <bool Begun, class Exact>
  __device__ __forceinline__ void lower(Scores &p, Exact exact, Rows *sums, Rows *a) {
    const Rows top = p.row_max();
    unroll<Rows::rows>([&](int r) {
      const bool too_much = max_over_lanes<4>((*sums)[r]) > most(B::dtype) && !exact(r);
      const float before = minus_m[r], highest = max_over_lanes<4>(top[r]);
      minus_m[r] = too_much ? before - (lg2_approx_ftz(highest) - lift(B::dtype)) : before;
      const float factor = ex2_approx_ftz(minus_m[r] - before);
      p.scale_row(r, factor);
      (*sums)[r] *= factor;
      (*a)[r] = Begun ? (*a)[r] * factor : factor;
      // Nor are weights that no factor scales.
      const bool lost = factor == 0 || (too_much && fabsf(before) >= far);
      l[r] *= lost ? nan_value() : factor;
    });
  }
};

}  // namespace fa::kernels::wgmma
