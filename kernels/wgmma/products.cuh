// The two products of attention, as a warpgroup begins them: S = Q K^T and O = O + P V.
#pragma once

#include "wgmma/block.cuh"

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

/// Begins S = Q K^T.
template <class B>
__device__ __forceinline__ void multiply_keys(typename B::Scores &s, uint32_t queries, uint32_t keys) {
  using Product = Wgmma<typename B::Element, B::keys>;
  const typename B::Queries q(queries);
  const typename B::Keys k(keys);
  Product::template multiply<false>(s, q.rows(0), k.rows(0));
  unroll<B::dim / 16 - 1>([&](int i) { Product::template multiply<true>(s, q.rows(i + 1), k.rows(i + 1)); });
  wgmma_commit_group();
}

/// Begins O = O + P V.
template <class B>
__device__ __forceinline__ void multiply_values(typename B::Out &o, const Weights<B> &p, uint32_t values) {
  using Product = Wgmma<typename B::Element, B::dim>;
  const typename B::Keys v(values);
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
