// The two products of attention on tensor cores, a chunk at a time: S = S + Q K^T and O = O + P V.
#pragma once

#include "forward/mma_wide/block.cuh"
#include "forward/mma_wide/constants.cuh"

namespace fa::kernels::mma_wide {

/// S = S + Q K^T for chunk `chunk` of a warp's keys.
template <class B>
__device__ inline void multiply_keys(typename B::Scores &s, uint32_t queries, uint32_t keys, int chunk, int head_dim) {
  using Tile = typename B::KeyTile;
  using Queries = typename B::QueryTile;
  constexpr int steps = Tile::panel_columns / 16;
  const int thread = thread_number(), lane = thread % 32, warp = thread / 32;
  const uint32_t rows = queries + Queries::lane_offset(B::first_row(warp) + lane_row(lane), lane_chunk(lane)) +
                        chunk * Tile::panels * Queries::panel_bytes;
  const uint32_t at =
      keys + Tile::lane_offset(B::first_key(warp) + lane_row_of_columns(lane), lane_chunk_of_columns(lane));
  unroll<Tile::panels>([&](int panel) {
    if (panel > 0 && chunk * B::chunk + panel * Tile::panel_columns >= head_dim) return;
    unroll<steps>([&](int step) {
      const int k = panel * steps + step;
      FragmentsA<typename B::Element, B::row_blocks> a;
      unroll<B::row_blocks>([&](int i) { ldmatrix_x4(a.block[i].word, Queries::matrices_at(rows, i, k)); });
      uint32_t b[4];
      ldmatrix_x4(b, Tile::matrices_at(at, 0, k));
      s.multiply_add(0, a, b);
    });
  });
}

/// The weights of a row group as A, from shared memory.
template <class B>
struct Weights {
  using Tile = typename B::WeightTile;
  FragmentsA<typename B::Element, B::row_blocks> columns[B::keys / 16];

  /// Writes those of a warp's keys.
  __device__ static void store(uint32_t tile, const typename B::Scores &p) {
    const int thread = thread_number(), lane = thread % 32, warp = thread / 32;
    unroll<B::Rows::rows>([&](int r) {
      const int row = mma::row_of_tile<B>(thread, r);
      p.for_each_pair_in_row(r, [&](float x, float y, int j) {
        st_shared_b32(tile + Tile::offset(row, B::first_key(warp) / 8 + j) + lane % 4 * 4,
                      pack<typename B::Element>(x, y));
      });
    });
  }

  __device__ void load(uint32_t tile) {
    const int thread = thread_number(), lane = thread % 32;
    const uint32_t at = tile + Tile::lane_offset(B::first_row(thread / 32) + lane_row(lane), lane_chunk(lane));
    unroll<B::keys / 16>([&](int k) {
      unroll<B::row_blocks>([&](int i) { ldmatrix_x4(columns[k].block[i].word, Tile::matrices_at(at, i, k)); });
    });
  }
};

/// O = O + P V for chunk `chunk` of a tile of values; shown: of which 16 keys not all weights are 0.
template <class B>
__device__ inline void multiply_values(typename B::Out &o, const Weights<B> &p, uint32_t values, int chunk,
                                       uint32_t shown) {
  using Tile = typename B::KeyTile;
  constexpr int blocks = B::warp_columns / 16;
  constexpr uint32_t all = (1u << B::keys / 16) - 1;
  const int thread = thread_number(), lane = thread % 32, first = B::rank(thread / 32) * B::warp_columns;
  const uint32_t at = values + first / Tile::panel_columns * Tile::panel_bytes +
                      Tile::lane_offset(lane_row(lane), first % Tile::panel_columns / 8 + lane_chunk(lane));
  for_constants<B::chunks>([&](auto constant) {
    constexpr int c = constant;
    if (c != chunk) return;
    const auto multiply = [&](auto shows) {
      unroll<B::keys / 16>([&](int k) {
        if (!shows(k)) return;
        unroll<blocks>([&](int j) {
          uint32_t b[4];
          ldmatrix_x4_trans(b, Tile::matrices_at(at, k, j));
          o.multiply_add(c * blocks + j, p.columns[k], b);
        });
      });
    };
    if (shown == all) {  // without branches that loads would have to wait for
      multiply([](int) { return true; });
      keep_apart<2 * c>();
    } else {
      multiply([&](int k) { return shown >> k & 1; });
      keep_apart<2 * c + 1>();
    }
  });
}

}  // namespace fa::kernels::mma_wide
