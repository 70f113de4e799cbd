// From sums to results: O / l and lse; and the rows that need a fix-up pass.
#pragma once

#include "collective/output.cuh"
#include "collective/rescale.cuh"
#include "forward/tcgen05/block.cuh"

namespace fa::kernels::tcgen05 {

/// Writes 32 columns of a row, from `column` on, up to its last one.
template <class Element>
__device__ __forceinline__ void store_columns(const Params &p, const Target &to, int column, const float (&x)[32]) {
  if (to.dtype == f32) {
    unroll<8>([&](int i) {
      const int first = column + 4 * i;
      if (first < p.head_dim_v)
        *reinterpret_cast<float4 *>(to.row + first * 4) = {x[4 * i], x[4 * i + 1], x[4 * i + 2], x[4 * i + 3]};
    });
  } else {
    unroll<4>([&](int i) {
      const int first = column + 8 * i;
      const auto word = [&](int j) { return pack<Element>(x[8 * i + 2 * j], x[8 * i + 2 * j + 1]); };
      if (first < p.head_dim_v) *reinterpret_cast<uint4 *>(to.row + first * 2) = {word(0), word(1), word(2), word(3)};
    });
  }
}

/// Writes the results of a warp's rows of tile t: all in the main pass, those that `needed` it in the fix-up pass.
/// Returns the Fixup bits.
template <class B>
__device__ __forceinline__ uint32_t store(const Params &p, const WorkItem &item, int t, bool any_keys,
                                          typename B::Out out, FinalStats final, uint32_t needed) {
  const WorkTile &w = item.work;
  const bool is_fixup = item.pass == WorkPass::fixup, exact = is_fixup && (needed & exact_weights);
  const int32_t own = row_of_thread<B>(p, w, t);
  const bool exists = own < w.rows, dead = final.l == 0;
  const Interval keys = keys_of_row<B>(p, w, own);
  const int32_t row = exists ? own : w.first_row;
  const bool writes = exists && item.pass != WorkPass::detect && (!is_fixup || needed != 0);
  const float from_zero = -final.neg_max * (exact ? unit<B>(p) : ln_2);
  const Softmax softmax = {dead ? -infinity : B::score_mod ? p.softcap + from_zero : from_zero, final.l};
  float factor = 1;
  if (p.schedule.num_splits > 1) {
    if (writes) store_partial(p, w.partial_row + row - w.first_row, softmax);
  } else if (writes) {
    const Row at = row_at(p, w, row);
    factor = finish_row(p, w.sequence, at, softmax, sink_of(p, w.sequence, at), true);
  }
  const Target to = target_of(p, w, row);
  float zero = 0;
#pragma unroll 1
  for (int column = 0; column < B::dim_v; column += 32) {
    float x[32] = {};
    if (any_keys) {
      uint32_t o[32];
      __syncwarp();  // stores by some lanes may have diverged the warp
      tcgen05_ld_32x32b_x32(o, out.of_warp(column));
      tcgen05_wait_ld(o);
      unroll<32>([&](int i) {
        const float sum = __uint_as_float(o[i]);
        zero = fmaf(sum, 0.f, zero);
        x[i] = dead ? 0 : sum * factor;
      });
    }
    if (writes) store_columns<typename B::Element>(p, to, column, x);
  }
  if (!is_fixup) {
    const bool far_row = needs_exact_weights(keys, final);
    const bool special = zero != 0 && !keys.empty() && (far_row || is_finite(final.l));
    return exists ? (far_row ? exact_weights : 0) | (special ? finite_values : 0) : 0;
  }
  __syncwarp();
  // Scores of -inf alone leave no key, whatever the values are.
  const uint32_t needs = dead ? 0 : needed & finite_values;
#pragma unroll 1
  for (int other = 0; other < 32; other++) {
    const Interval attended = {__shfl_sync(~0u, keys.low, other), __shfl_sync(~0u, keys.high, other)};
    const int32_t row_of_other = __shfl_sync(~0u, row, other);
    if (__shfl_sync(~0u, needs, other) != 0) add_special_values(p, w, row_of_other, attended);
  }
  return needed;
}

}  // namespace fa::kernels::tcgen05
