// The online softmax. A row's reference m is set from its first scores. From then on it moves when the sum of a tile's
// weights, which is needed anyway, exceeds max_sum: the weights are then scaled, without any score, and O later,
// as products still add to it.
#pragma once

#include <cfloat>

#include "collective/rescale.cuh"
#include "forward/wgmma/partner.cuh"

namespace fa::kernels::wgmma {

/// Equal weights of 2^max_offset do not reach max_sum, so that m does not move at every tile.
template <class B>
constexpr bool needs_no_rescale =
    B::own_keys / 4 * (1 << int(Element<B::dtype>::max_offset)) < Element<B::dtype>::max_sum;

/// -m of each of a lane's rows, which partners have alike, and this lane's part of l. exact(r): whether row r takes
/// (x - m) c in place of c x - m.
template <class B>
struct OnlineSoftmax {
  using Rows = typename B::Rows;
  using Scores = typename B::Scores;
  static_assert(needs_no_rescale<B>);

  /// -m of a row that has no weights yet: finite, as 2^(-inf - m) is 0, not NaN. And of a row that will have none.
  static constexpr float uninitialized = FLT_MAX, none = -FLT_MAX;

  Rows neg_max, l;

  /// has_keys(r): row r attends any.
  template <class HasKeys>
  __device__ explicit OnlineSoftmax(HasKeys has_keys) {
    unroll<Rows::rows>([&](int r) { neg_max[r] = has_keys(r) ? uninitialized : none; });
    l.fill(0);
  }

  /// m = rowmax S of rows without weights, m' = max(m, rowmax S) and l = l a of exact ones, or of all if so asked:
  /// where scores rise by more than weights can be scaled by. True if any has moved; O is then to be multiplied by *a.
  template <class Exact>
  __device__ __forceinline__ bool begin(const Scores &s, float c, Exact exact, bool all, Rows *a, Partner<B> &partner) {
    constexpr float above = Element<B::dtype>::max_offset + Element<B::dtype>::rescale_threshold;
    const auto takes_part = [&](int r) { return all || neg_max[r] == uninitialized || exact(r); };
    a->fill(1);
    bool any = false;
    unroll<Rows::rows>([&](int r) { any |= takes_part(r); });
    if (!__any_sync(~0u, any)) return false;
    const Rows top = partner.max(s.row_max());
    bool moves = false;
    unroll<Rows::rows>([&](int r) { moves |= takes_part(r) && exponent(top[r], c, neg_max[r], exact(r)) > above; });
    moves = __any_sync(~0u, moves);
    if (!moves) return false;
    unroll<Rows::rows>([&](int r) {
      const float unit = exact(r) ? c : 1, before = neg_max[r];
      const float t = max_over_lanes<4>(top[r]) * (exact(r) ? 1 : c);
      const float lifted =
          fabsf(t * unit) < exact_score_threshold ? __fdividef(Element<B::dtype>::max_offset, unit) - t : -t;
      neg_max[r] = takes_part(r) && (t + before) * unit > above ? lifted : before;
      (*a)[r] = ex2_approx_ftz((neg_max[r] - before) * unit);
      // The row needed exact weights and did not have them: NaN makes the fix-up pass recompute it.
      const bool invalid = !exact(r) && fabsf(before) >= exact_score_threshold && l[r] != 0;
      l[r] *= invalid ? nan_value() : (*a)[r];
    });
    return true;
  }

  /// P = 2^(c S - m) in place of S.
  template <class Exact>
  __device__ __forceinline__ void exponentiate(Scores &s, float c, Exact exact) const {
    s.for_each([&](float &x, int r, int) { x = ex2_approx_ftz(exponent(x, c, neg_max[r], exact(r))); });
  }

  /// m' = max(m, m + log2(rowmax P) - max_offset), P = P a and l = l a, if any row sum in the warp
  /// exceeds max_sum. Then l = l + rowsum P. True if any m has moved; O is then to be multiplied by *a, which
  /// Begun says is set.
  template <bool Begun, class Exact>
  __device__ __forceinline__ bool add_weights(Scores &p, Exact exact, Rows *a, Partner<B> &partner) {
    Rows sums = p.row_sums();
    bool moved = false;
    unroll<Rows::rows>([&](int r) { moved |= sums[r] > Element<B::dtype>::max_sum && !exact(r); });
    moved = partner.any(__any_sync(~0u, moved));
    if (moved) lower<Begun>(p, exact, &sums, a, partner);
    unroll<Rows::rows>([&](int r) { l[r] += sums[r]; });
    return moved;
  }

 private:
  template <bool Begun, class Exact>
  __device__ __forceinline__ void lower(Scores &p, Exact exact, Rows *sums, Rows *a, Partner<B> &partner) {
    const Rows top = partner.max(p.row_max()), largest = partner.max(*sums);
    unroll<Rows::rows>([&](int r) {
      const bool too_much = max_over_lanes<4>(largest[r]) > Element<B::dtype>::max_sum && !exact(r);
      const float before = neg_max[r], highest = max_over_lanes<4>(top[r]);
      neg_max[r] = too_much ? before - (lg2_approx_ftz(highest) - Element<B::dtype>::max_offset) : before;
      const float factor = ex2_approx_ftz(neg_max[r] - before);
      p.scale_row(r, factor);
      (*sums)[r] *= factor;
      (*a)[r] = Begun ? (*a)[r] * factor : factor;
      // The same where the scale underflows.
      const bool invalid = factor == 0 || (too_much && fabsf(before) >= exact_score_threshold);
      l[r] *= invalid ? nan_value() : factor;
    });
  }
};

}  // namespace fa::kernels::wgmma
