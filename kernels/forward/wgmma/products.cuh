// The two products of attention, as a warpgroup begins them: S = Q K^T and O = O + P V.
#pragma once

#include "forward/wgmma/partner.cuh"

namespace fa::kernels::wgmma {

/// P as A: this warpgroup's weights, then its partner's.
template <class B>
struct Weights {
  static constexpr int blocks = B::keys / 16, own = B::own_keys / 16;
  FragmentsA<typename B::Element, 1> columns[blocks];

  __device__ __forceinline__ void pack(const typename B::Scores &p, Partner<B> &partner) {
    unroll<own>([&](int k) { columns[k] = p.template columns_as_a<typename B::Element>(k); });
    if constexpr (own < blocks) {
      uint4 given[own], got[own];
      unroll<own>([&](int k) { given[k] = *reinterpret_cast<const uint4 *>(columns[k].block[0].word); });
      partner.exchange(given, got);
      unroll<own>([&](int k) { *reinterpret_cast<uint4 *>(columns[own + k].block[0].word) = got[k]; });
    }
  }

  /// The first key of a part of columns.
  static constexpr int parts = blocks / own;
  static_assert(parts <= 2);
  __device__ static int first_key(int part) { return (B::group() ^ part) * B::own_keys; }
};

/// The products of S = Q K^T from depth 16 i on. Not by unroll: nvcc leaves that loop to ptxas, which may not unroll it
/// in time to see that products follow upon products.
template <class B, int I = 0>
__device__ __forceinline__ void multiply_depths(typename B::Scores &s, const typename B::Queries &q,
                                                const typename B::Keys &k) {
  if constexpr (I < B::dim / 16) {
    Wgmma<typename B::Element, B::own_keys>::template multiply<(I > 0)>(s, q.rows(I), k.rows(I));
    multiply_depths<B, I + 1>(s, q, k);
  }
}

/// Begins S = Q K^T.
template <class B>
__device__ __forceinline__ void multiply_keys(typename B::Scores &s, const typename B::Queries &q,
                                              const typename B::Keys &k) {
  if constexpr (B::parts == 1)
    multiply_depths<B>(s, q, k);
  else
    multiply_depths<B>(s, q.from(0), k.from(B::first_key()));
  wgmma_commit_group();
}

/// Begins O = O + P V.
template <class B>
__device__ __forceinline__ void multiply_values(typename B::Out &o, const Weights<B> &p, const typename B::Values &v) {
  using Product = Wgmma<typename B::Element, B::own_columns>;
  if constexpr (B::parts == 1) {
    unroll<Weights<B>::blocks>(
        [&](int i) { Product::multiply_add_transposed(o, p.columns[i].block[0], v.columns(i)); });
  } else {
    const int panel = B::first_column() / B::ValueTile::panel_columns;
    unroll<Weights<B>::parts>([&](int part) {
      const auto columns = v.from(Weights<B>::first_key(part), panel);
      unroll<Weights<B>::own>([&](int i) {
        Product::multiply_add_transposed(o, p.columns[part * Weights<B>::own + i].block[0], columns.columns(i));
      });
    });
  }
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
