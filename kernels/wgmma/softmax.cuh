// The softmax that goes along with the tiles, as in mma/softmax.cuh, but for sums O that products still add to: they
// are scaled later.
#pragma once

#include <cfloat>

#include "common/weights.cuh"
#include "wgmma/block.cuh"

namespace fa::kernels::wgmma {

template <class B>
constexpr float most = lift(B::dtype) + slack(B::dtype);

/// Of each of a lane's rows: -m, as it is added, and this lane's part of l. exact(r) says whether row r is.
template <class B>
struct OnlineSoftmax {
  using Rows = typename B::Rows;
  using Scores = typename B::Scores;

  Rows minus_m, l;

  __device__ OnlineSoftmax() {
    minus_m.fill(FLT_MAX);  // finite: 2^(-inf - m) is 0, not NaN
    l.fill(0);
  }

  /// m' = max(m, rowmax S), and l in its scale, once a row of the warp has moved by more than the slack. True if so; O
  /// is then to be multiplied by *a.
  template <class Exact>
  __device__ __forceinline__ bool raise_maxima(const Scores &s, float c, Exact exact, Rows *a) {
    const Rows top = s.row_max();
    bool moved = false;
    unroll<Rows::rows>([&](int r) { moved |= exponent(top[r], c, minus_m[r], exact(r)) > most<B>; });
    moved = __any_sync(~0u, moved);
    if (moved) move_maxima(top, c, exact, a);
    return moved;
  }

  /// P = 2^(c S - m') in place of S.
  template <class Exact>
  __device__ __forceinline__ void exponentiate(Scores &s, float c, Exact exact) const {
    s.for_each([&](float &x, int r, int) { x = ex2_approx_ftz(exponent(x, c, minus_m[r], exact(r))); });
  }

  /// l = l + rowsum P.
  __device__ __forceinline__ void add_weights(const Scores &p) { p.add_row_sums(l); }

 private:
  /// m' = max(m, c rowmax S), l = l a with a = 2^(m - m'): for the rows whose maximum has moved.
  template <class Exact>
  __device__ __forceinline__ void move_maxima(const Rows &top, float c, Exact exact, Rows *a) {
    unroll<Rows::rows>([&](int r) {
      const bool is_exact = exact(r);
      const float unit = is_exact ? c : 1, before = minus_m[r], sum = l[r];
      const float t = max_over_lanes<4>(top[r]) * (is_exact ? 1 : c);
      const float lifted = fabsf(t * unit) < far ? __fdividef(lift(B::dtype), unit) - t : -t;
      const float now = (t + before) * unit > most<B> ? lifted : before;
      (*a)[r] = ex2_approx_ftz((now - before) * unit);
      // Sums of weights that were not exact, though they had to be, are worth nothing: the row is worked on again.
      const bool lost = !is_exact && fabsf(before) >= far && sum != 0;
      minus_m[r] = now;
      l[r] = sum * (lost ? nan_value() : (*a)[r]);
    });
  }
};

}  // namespace fa::kernels::wgmma
