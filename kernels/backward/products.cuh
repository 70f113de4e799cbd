// The products of gradients, on tensor cores: of owned rows by walked ones, and of weights by walked ones.
#pragma once

#include "backward/block.cuh"

namespace fa::kernels::backward {

/// S += A B^T: this warp's rows of an owned tile by the rows of a walked one.
template <class B>
__device__ inline void multiply_rows(typename B::Scores &s, uint32_t own, uint32_t walked) {
  using Own = typename B::OwnTile;
  using Walked = typename B::WalkedTile;
  const int thread = B::thread(), lane = thread % 32, first = B::team(thread / 32) * B::warp_rows;
  const uint32_t a_at = own + Own::lane_offset(first + lane_row(lane), lane_chunk(lane));
  const uint32_t b_at = walked + Walked::lane_offset(lane_row_of_columns(lane), lane_chunk_of_columns(lane));
  unroll<B::dim / 16>([&](int k) {
    FragmentsA<typename B::Element, B::row_blocks> a;
    unroll<B::row_blocks>([&](int i) { ldmatrix_x4(a.block[i].word, Own::matrices_at(a_at, i, k)); });
    unroll<B::columns / 16>([&](int j) {
      uint32_t b[4];
      ldmatrix_x4(b, Walked::matrices_at(b_at, j, k));
      s.multiply_add(j, a, b);
    });
  });
}

/// sum += W B: weights, rounded, by the rows of a walked tile. rounded(k, fragments): 16 columns of them.
template <class B, class F>
__device__ inline void add_weighted(typename B::Sums &sum, const typename B::Scores &w, uint32_t walked, F rounded) {
  using Walked = typename B::WalkedTile;
  const int lane = B::thread() % 32;
  const uint32_t at = walked + Walked::lane_offset(lane_row(lane), lane_chunk(lane));
  unroll<B::columns / 16>([&](int k) {
    const auto a = w.template columns_as_a<typename B::Element>(k);
    rounded(k, a);
    unroll<B::dim / 16>([&](int j) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, Walked::matrices_at(at, k, j));
      sum.multiply_add(j, a, b);
    });
  });
}
template <class B>
__device__ inline void add_weighted(typename B::Sums &sum, const typename B::Scores &w, uint32_t walked) {
  add_weighted<B>(sum, w, walked, [](int, const auto &) {});
}

}  // namespace fa::kernels::backward
