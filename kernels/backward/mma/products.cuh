// The products of gradients, on tensor cores: of owned rows by streamed ones, and of weights by streamed ones.
#pragma once

#include "backward/mma/block.cuh"

namespace fa::kernels::backward_mma {

/// This warp's rows of an owned tile as A, by blocks of 16 columns.
template <class B>
class OwnRows {
 public:
  using Fragments = FragmentsA<typename B::Element, B::row_blocks>;

  __device__ explicit OwnRows(uint32_t tile) {
    const int thread = B::thread(), lane = thread % 32, first = B::team(thread / 32) * B::warp_rows;
    at_ = tile + B::OwnTile::lane_offset(first + lane_row(lane), lane_chunk(lane));
  }

  __device__ Fragments operator[](int k) const {
    Fragments a;
    unroll<B::row_blocks>([&](int i) { ldmatrix_x4(a.block[i].word, B::OwnTile::matrices_at(at_, i, k)); });
    return a;
  }

 private:
  uint32_t at_;
};

/// The blocks of columns of an owned operand that stay in registers.
template <class B>
struct RegOperand {
  typename OwnRows<B>::Fragments block[B::kept_blocks + (B::kept_blocks == 0)];

  __device__ void load(uint32_t tile) {
    const OwnRows<B> rows(tile);
    unroll<B::kept_blocks>([&](int k) { block[k] = rows[k]; });
  }
};

/// S += A B^T: this warp's rows of an owned tile, some of which are in registers, by the rows of a streamed one.
template <class B>
__device__ inline void multiply_rows(typename B::Scores &s, uint32_t own, const RegOperand<B> &kept,
                                     uint32_t streamed) {
  using Streamed = typename B::StreamedTile;
  const int lane = B::thread() % 32;
  const OwnRows<B> rows(own);
  const uint32_t b_at = streamed + Streamed::lane_offset(lane_row_of_columns(lane), lane_chunk_of_columns(lane));
  unroll<B::dim / 16>([&](int k) {
    const auto a = k < B::kept_blocks ? kept.block[k] : rows[k];
    unroll<B::columns / 16>([&](int j) {
      uint32_t b[4];
      ldmatrix_x4(b, Streamed::matrices_at(b_at, j, k));
      s.multiply_add(j, a, b);
    });
  });
}

/// sum += W B: weights, rounded, by the rows of a streamed tile. rounded(k, fragments): 16 columns of them.
template <class B, class F>
__device__ inline void add_weighted(typename B::Sums &sum, const typename B::Scores &w, uint32_t streamed, F rounded) {
  using Streamed = typename B::StreamedTile;
  const int lane = B::thread() % 32;
  const uint32_t at = streamed + Streamed::lane_offset(lane_row(lane), lane_chunk(lane));
  unroll<B::columns / 16>([&](int k) {
    const auto a = w.template columns_as_a<typename B::Element>(k);
    rounded(k, a);
    unroll<B::dim / 16>([&](int j) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, Streamed::matrices_at(at, k, j));
      sum.multiply_add(j, a, b);
    });
  });
}
template <class B>
__device__ inline void add_weighted(typename B::Sums &sum, const typename B::Scores &w, uint32_t streamed) {
  add_weighted<B>(sum, w, streamed, [](int, const auto &) {});
}

}  // namespace fa::kernels::backward_mma
