// The two products of attention, on tensor cores: S = Q K^T and O = O + P V.
#pragma once

#include "mma/block.cuh"

namespace fa::kernels::mma {

/// A warp's queries as left sides: in registers, or read from shared memory each time.
template <class B, bool InRegisters = B::shape.q_in_registers>
class Queries {
 public:
  __device__ explicit Queries(uint32_t tile) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    lane_ = tile + B::QueryTile::lane_offset(B::first_row(warp) + lane_row(lane), lane_chunk(lane));
  }
  __device__ void load() {}
  __device__ void get(FragmentA<typename B::Element> &a, int i, int k) const {
    ldmatrix_x4(a.word, B::QueryTile::matrices_at(lane_, i, k));
  }

 private:
  uint32_t lane_;
};

template <class B>
class Queries<B, true> {
 public:
  __device__ explicit Queries(uint32_t tile) : tile_(tile) {}
  __device__ void load() {
#pragma unroll
    for (int i = 0; i < B::row_blocks; i++)
#pragma unroll
      for (int k = 0; k < B::dim / 16; k++) tile_.get(blocks_[i][k], i, k);
  }
  __device__ void get(FragmentA<typename B::Element> &a, int i, int k) const {
    a = blocks_[i][k];
  }

 private:
  Queries<B, false> tile_;
  FragmentA<typename B::Element> blocks_[B::row_blocks][B::dim / 16];
};

/// S = Q K^T for a tile of keys.
template <class B>
__device__ inline void multiply_keys(typename B::Scores &s, const Queries<B> &q, uint32_t keys) {
  using Tile = typename B::KeyTile;
  const int lane = threadIdx.x % 32;
  const int first = B::first_key(threadIdx.x / 32);
  const uint32_t at = keys + Tile::lane_offset(first + lane_row_of_columns(lane), lane_chunk_of_columns(lane));
#pragma unroll
  for (int k = 0; k < B::dim / 16; k++) {
    FragmentA<typename B::Element> a[B::row_blocks];
#pragma unroll
    for (int i = 0; i < B::row_blocks; i++) q.get(a[i], i, k);
#pragma unroll
    for (int j = 0; j < B::score_blocks / 2; j++) {
      uint32_t b[4];
      ldmatrix_x4(b, Tile::matrices_at(at, j, k));
#pragma unroll
      for (int i = 0; i < B::row_blocks; i++) {
        mma_m16n8k16(s[i][2 * j], a[i], {b[0], b[1]}, k == 0 ? Accumulator{} : s[i][2 * j]);
        mma_m16n8k16(s[i][2 * j + 1], a[i], {b[2], b[3]}, k == 0 ? Accumulator{} : s[i][2 * j + 1]);
      }
    }
  }
}

/// O = O + P V for a tile of values.
template <class B>
__device__ inline void multiply_values(typename B::Out &o, const typename B::Scores &p, uint32_t values) {
  using Tile = typename B::KeyTile;
  const int thread = B::scarce ? mov_tid_x() : int(threadIdx.x);
  const int lane = B::lane_by_mask ? thread & 31 : thread % 32;
  const uint32_t at = values + Tile::lane_offset(B::first_key(thread / 32) + lane_row(lane), lane_chunk(lane));
#pragma unroll
  for (int k = 0; k < B::warp_keys / 16; k++) {
    FragmentA<typename B::Element> a[B::row_blocks];
#pragma unroll
    for (int i = 0; i < B::row_blocks; i++) convert(a[i], p[i][2 * k], p[i][2 * k + 1]);
#pragma unroll
    for (int j = 0; j < B::out_blocks / 2; j++) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, Tile::matrices_at(at, k, j));
#pragma unroll
      for (int i = 0; i < B::row_blocks; i++) {
        mma_m16n8k16(o[i][2 * j], a[i], {b[0], b[1]}, o[i][2 * j]);
        mma_m16n8k16(o[i][2 * j + 1], a[i], {b[2], b[3]}, o[i][2 * j + 1]);
      }
    }
  }
}

}  // namespace fa::kernels::mma
