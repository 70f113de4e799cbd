// The two products of attention, on tensor cores: S = Q K^T and O = O + P V.
#pragma once

#include "forward/mma/block.cuh"

namespace fa::kernels::mma {

/// A warp's queries as A: in registers, or read from shared memory each time.
template <class B, bool InRegisters = B::shape.q_in_registers>
class Queries {
 public:
  using Column = FragmentsA<typename B::Element, B::row_blocks>;

  __device__ explicit Queries(uint32_t tile) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    lane_ = tile + B::QueryTile::lane_offset(B::first_row(warp) + lane_row(lane), lane_chunk(lane));
  }
  __device__ void load() {}

  /// Columns 16 k .. 16 k + 15.
  __device__ Column column(int k) const {
    Column a;
    unroll<B::row_blocks>([&](int i) { ldmatrix_x4(a.block[i].word, B::QueryTile::matrices_at(lane_, i, k)); });
    return a;
  }

 private:
  uint32_t lane_;
};

template <class B>
class Queries<B, true> {
 public:
  using Column = typename Queries<B, false>::Column;

  __device__ explicit Queries(uint32_t tile) : tile_(tile) {}
  __device__ void load() {
    unroll<B::dim / 16>([&](int k) { columns_[k] = tile_.column(k); });
  }
  __device__ const Column &column(int k) const { return columns_[k]; }

 private:
  Queries<B, false> tile_;
  Column columns_[B::dim / 16];
};

/// S = Q K^T for a tile of keys.
template <class B>
__device__ inline void multiply_keys(typename B::Scores &s, const Queries<B> &q, uint32_t keys) {
  using Tile = typename B::KeyTile;
  const int lane = threadIdx.x % 32;
  const int first = B::first_key(threadIdx.x / 32);
  const uint32_t at = keys + Tile::lane_offset(first + lane_row_of_columns(lane), lane_chunk_of_columns(lane));
  s.clear();
  unroll<B::dim / 16>([&](int k) {
    const auto a = q.column(k);
    unroll<B::warp_keys / 16>([&](int j) {
      uint32_t b[4];
      ldmatrix_x4(b, Tile::matrices_at(at, j, k));
      s.multiply_add(j, a, b);
    });
  });
}

/// P as A, in half the registers: before the copies that need some.
template <class B>
struct PackedWeights {
  static constexpr int blocks = B::warp_keys / 16;
  FragmentsA<typename B::Element, B::row_blocks> columns[blocks];

  __device__ explicit PackedWeights(const typename B::Scores &p) {
    unroll<blocks>([&](int k) { columns[k] = p.template columns_as_a<typename B::Element>(k); });
  }
  template <class>
  __device__ const auto &columns_as_a(int k) const {
    return columns[k];
  }
};

/// O = O + P V for a tile of values.
template <class B, class Weights>
__device__ inline void multiply_values(typename B::Out &o, const Weights &p, uint32_t values) {
  using Tile = typename B::KeyTile;
  const int thread = B::scarce_registers ? mov_tid_x() : int(threadIdx.x);
  const int lane = B::lane_by_mask ? thread & 31 : thread % 32;
  const uint32_t at = values + Tile::lane_offset(B::first_key(thread / 32) + lane_row(lane), lane_chunk(lane));
  unroll<B::warp_keys / 16>([&](int k) {
    const auto a = p.template columns_as_a<typename B::Element>(k);
    unroll<B::dim / 16>([&](int j) {
      uint32_t b[4];
      ldmatrix_x4_trans(b, Tile::matrices_at(at, k, j));
      o.multiply_add(j, a, b);
    });
  });
}

}  // namespace fa::kernels::mma
