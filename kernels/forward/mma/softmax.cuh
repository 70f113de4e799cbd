// The online softmax (Milakov & Gimelshein 2018): each row's reference m, and l, the sum of its
// weights 2^(c x - m), or 2^(c (x - m)) where that is exact.
#pragma once

#include <cfloat>

#include "collective/rescale.cuh"
#include "common/lanes.cuh"
#include "common/numbers.cuh"
#include "common/ptx.cuh"
#include "forward/mma/block.cuh"

namespace fa::kernels::mma {

template <class B>
constexpr float rescale_limit = Element<B::dtype>::max_offset + Element<B::dtype>::rescale_threshold;

/// -m of each of a lane's rows, and this lane's part of l. exact(r): whether row r takes (x - m) c in place of c x - m.
template <class B>
struct OnlineSoftmax {
  using Rows = typename B::Rows;
  using Scores = typename B::Scores;
  using Out = typename B::Out;

  Rows neg_max, l;

  __device__ OnlineSoftmax() {
    neg_max.fill(FLT_MAX);  // finite: 2^(-inf - m) is 0, not NaN
    l.fill(0);
  }

  /// m' = max(m, rowmax S), and l and O in its scale, once a row of the warp has moved by more than rescale_threshold.
  template <class Exact>
  __device__ void update_row_max(Out &o, const Scores &s, float c, Exact exact) {
    const Rows top = s.row_max();
    bool moved = false;
    unroll<Rows::rows>([&](int r) { moved |= exponent(top[r], c, neg_max[r], exact(r)) > rescale_limit<B>; });
    if (__any_sync(~0u, moved)) rescale_o(o, top, c, exact);
  }

  /// P = 2^(c S - m') in place of S.
  template <class Exact>
  __device__ void exponentiate(Scores &s, float c, Exact exact) const {
    s.for_each([&](float &x, int r, int) { x = ex2_approx_ftz(exponent(x, c, neg_max[r], exact(r))); });
  }

  /// l = l + rowsum P.
  __device__ void add_weights(const Scores &p) { p.add_row_sums(l); }

 private:
  /// m' = max(m, c rowmax S), l = l a, O = O a with a = 2^(m - m'): for the rows whose maximum has moved.
  template <class Exact>
  __device__ void rescale_o(Out &o, const Rows &top, float c, Exact exact) {
    Rows a;
    bool any_sums = false;
    unroll<Rows::rows>([&](int r) {
      any_sums |= neg_max[r] != FLT_MAX;
      const bool is_exact = exact(r);
      const float unit = is_exact ? c : 1, before = neg_max[r], sum = l[r];
      const float t = max_over_lanes<4>(top[r]) * (is_exact ? 1 : c);
      const float lifted =
          fabsf(t * unit) < exact_score_threshold ? __fdividef(Element<B::dtype>::max_offset, unit) - t : -t;
      const float now = (t + before) * unit > rescale_limit<B> ? lifted : before;
      a[r] = ex2_approx_ftz((now - before) * unit);
      // The row needed exact weights and did not have them: NaN makes the second pass recompute it.
      const bool invalid = !is_exact && fabsf(before) >= exact_score_threshold && sum != 0;
      neg_max[r] = now;
      l[r] = sum * (invalid ? nan_value() : a[r]);
    });
    if (B::split_keys_across_warps && !any_sums) return;
    o.scale_rows(a);
  }
};

}  // namespace fa::kernels::mma
