// The products of a step, as a warpgroup begins them.
#pragma once

#include "backward/wgmma/block.cuh"

namespace fa::kernels::backward_wgmma {

/// P^T or dS^T of a warpgroup, rounded, as A.
template <class B>
struct Weights {
  static constexpr int blocks = B::columns / 16;
  FragmentsA<typename B::Element, 1> columns[blocks];

  Weights() = default;
  __device__ __forceinline__ explicit Weights(const typename B::Scores &x) {
    unroll<blocks>([&](int k) { columns[k] = x.template columns_as_a<typename B::Element>(k); });
  }

  /// f(k, fragments) of each 16 columns, whose rows are multiplied by factors before they are rounded.
  template <class Factor, class F>
  __device__ __forceinline__ static void scaled(const typename B::Scores &x, Factor factor, F f) {
    unroll<blocks>([&](int k) {
      AccumulatorTile<1, 2> part = {{{x.block[0][2 * k], x.block[0][2 * k + 1]}}};
      unroll<2>([&](int r) { part.scale_row(r, factor(r)); });
      f(k, part.template columns_as_a<typename B::Element>(0));
    });
  }
  __device__ __forceinline__ Weights(const typename B::Scores &x, const Factors<B> &factors) {
    if constexpr (B::scales) {
      scaled(x, [&](int r) { return factors.factor(r); }, [&](int k, const auto &a) { columns[k] = a; });
    } else {
      *this = Weights(x);
    }
  }
};

/// S^T = K Q^T or dP^T = V dO^T from depth 16 i on. Not by unroll: see kernels/forward/wgmma/products.cuh.
template <class B, int I = 0>
__device__ __forceinline__ void multiply_rows(typename B::Scores &x, const typename B::Own &own,
                                              const typename B::Streamed &streamed) {
  if constexpr (I < B::dim / 16) {
    Wgmma<typename B::Element, B::columns>::template multiply<(I > 0)>(x, own.rows(I), streamed.rows(I));
    multiply_rows<B, I + 1>(x, own, streamed);
  } else {
    wgmma_commit_group();
  }
}

/// dV += P^T dO or dK += dS^T Q.
template <class B>
__device__ __forceinline__ void add_weighted(typename B::Sums &sum, Weights<B> &weights,
                                             const typename B::Streamed &streamed) {
  pin(sum);
  unroll<Weights<B>::blocks>([&](int k) { pin(weights.columns[k]); });
  wgmma_fence();
  unroll<Weights<B>::blocks>([&](int k) {
    Wgmma<typename B::Element, B::dim>::multiply_add_transposed(sum, weights.columns[k].block[0], streamed.columns(k));
  });
  wgmma_commit_group();
}

/// This warpgroup's part of dQ = dS K, from keys 16 i on; where a tile has more queries, it has other ones.
template <class B, int I = 0>
__device__ __forceinline__ void multiply_ds(typename B::DqPart &dq, const typename B::Ds &ds,
                                            const typename B::Own &own) {
  if constexpr (I < B::rows / 16) {
    Wgmma<typename B::Element, 64>::template multiply_transposed<(I > 0)>(dq, ds.columns(I), own.columns(I));
    multiply_ds<B, I + 1>(dq, ds, own);
  } else {
    wgmma_commit_group();
  }
}

}  // namespace fa::kernels::backward_wgmma
