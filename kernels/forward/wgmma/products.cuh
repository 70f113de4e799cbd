// The two products of attention, as a warpgroup begins them: S = Q K^T and O = O + P V.
#pragma once

#include "forward/wgmma/block.cuh"

namespace fa::kernels::wgmma {

/// P as A.
template <class B>
struct Weights {
  static constexpr int blocks = B::keys / 16;
  FragmentsA<typename B::Element, 1> columns[blocks];

  __device__ __forceinline__ void pack(const typename B::Scores &p) {
    unroll<blocks>([&](int k) { columns[k] = p.template columns_as_a<typename B::Element>(k); });
  }
};

/// The products of S = Q K^T from depth 16 i on. Not by unroll: nvcc leaves that loop to ptxas, which may not unroll it
/// in time to see that products follow upon products.
template <class B, int I = 0>
__device__ __forceinline__ void multiply_depths(typename B::Scores &s, const typename B::Queries &q,
                                                const typename B::Keys &k) {
  if constexpr (I < B::dim / 16) {
    Wgmma<typename B::Element, B::keys>::template multiply<(I > 0)>(s, q.rows(I), k.rows(I));
    multiply_depths<B, I + 1>(s, q, k);
  }
}

/// Begins S = Q K^T.
template <class B>
__device__ __forceinline__ void multiply_keys(typename B::Scores &s, const typename B::Queries &q,
                                              const typename B::Keys &k) {
  multiply_depths<B>(s, q, k);
  wgmma_commit_group();
}

/// Begins O = O + P V.
template <class B>
__device__ __forceinline__ void multiply_values(typename B::Out &o, const Weights<B> &p, const typename B::Values &v) {
  using Product = Wgmma<typename B::Element, B::dim_v>;
  unroll<Weights<B>::blocks>([&](int i) { Product::multiply_add_transposed(o, p.columns[i].block[0], v.columns(i)); });
  wgmma_commit_group();
}

/// Before products that use registers which this warp has written.
template <class B>
__device__ __forceinline__ void fence_products(typename B::Out &o, Weights<B> &p) {
  pin(o);
  unroll<Weights<B>::blocks>([&](int k) { pin(p.columns[k]); });
  wgmma_fence();
}

}  // namespace fa::kernels::wgmma
