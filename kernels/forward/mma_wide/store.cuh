// From sums to results: O / l, lse, partial results of a split; and the rows that need a second pass.
#pragma once

#include "collective/epilogue.cuh"
#include "collective/nonfinite.cuh"
#include "common/quad.cuh"
#include "forward/mma/store.cuh"
#include "forward/mma_wide/constants.cuh"
#include "forward/mma_wide/softmax.cuh"

namespace fa::kernels::mma_wide {

/// The values that warps with the same rows exchange at the end, in the place of the weights: each warp's part of l,
/// and a number that is not 0 where a sum of its columns is not finite.
template <class B>
class EndOfRows {
 public:
  static_assert(warps_of_rows * B::rows * int(sizeof(float2)) <= B::WeightTile::bytes);

  __device__ explicit EndOfRows(uint32_t memory) : memory_(memory) {}

  __device__ void put(int warp, int row, float l, float nonfinite) const {
    st_shared_v2_f32(at(B::rank(warp), row), l, nonfinite);
  }

  /// l, and whether any sum is not finite.
  __device__ float2 sum(int row) const {
    float2 of_warp[warps_of_rows];
    unroll<warps_of_rows>([&](int i) { of_warp[i] = ld_shared_v2_f32(at(i, row)); });
    return {(of_warp[0].x + of_warp[1].x) + (of_warp[2].x + of_warp[3].x),
            (of_warp[0].y + of_warp[1].y) + (of_warp[2].y + of_warp[3].y)};
  }

 private:
  __device__ uint32_t at(int rank, int row) const { return memory_ + (rank * B::rows + row) * int(sizeof(float2)); }

  uint32_t memory_;
};

/// Eight rows of a warp's columns in shared memory, so that neighbouring lanes have neighbouring columns.
template <class B>
class StagedRows {
  static constexpr int columns = 8 * B::Out::column_blocks;

 public:
  static_assert(B::threads / 32 * 8 * columns * int(sizeof(float)) <= B::QueryTile::bytes);
  static constexpr int quads = columns / 4;

  __device__ explicit StagedRows(uint32_t memory)
      : memory_(memory + threadIdx.x / 32 * (8 * columns * int(sizeof(float)))) {}

  /// Row r of each lane; r need not be a constant.
  __device__ void put(const typename B::Out &o, int r) const {
    const int lane = threadIdx.x % 32;
    __syncwarp();
    for_constants<B::Rows::rows>([&](auto constant) {
      if (constant() != r) return;
      o.for_each_pair_in_row(constant(), [&](float x, float y, int j) {
        st_shared_v2_f32(block(lane / 4, j) + B::Out::first_column(lane) * int(sizeof(float)), x, y);
      });
      keep_apart<constant()>();
    });
    __syncwarp();
  }

  __device__ Quad quad(int row, int i) const {
    const uint4 x = ld_shared_v4_b32(block(row, i / 2) + i % 2 * int(sizeof(Quad)));
    return {{__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)}};
  }

 private:
  /// Columns 8 j .. 8 j + 7 of a row; blocks are exchanged, so that neighbouring rows do not share banks.
  __device__ uint32_t block(int row, int j) const {
    return memory_ + (row * columns + (j ^ row % 4) * 8) * int(sizeof(float));
  }

  uint32_t memory_;
};

/// A row's sum times the row's factor. A row without keys has a negative one, and is 0.
__device__ inline float times_factor(float sum, float factor) {
  return factor < 0 ? 0 : sum * factor;
}

/// Ends the softmax of each row, by a thread a row; writes lse and m, l of partial results, and notes which rows need a
/// second pass. True when this thread's does.
template <class B>
__device__ inline bool finish_rows(const Params &p, BlockState<B> &block, const EndOfRows<B> &ends, bool second_run) {
  const WorkTile &w = block.work;
  const int r = threadIdx.x;
  if (r >= B::rows || w.first_row + r >= w.rows) return false;
  const float2 end = ends.sum(r);
  const Softmax softmax = {end.x == 0 ? -infinity : block.end_of_row[r], end.x};
  float factor = 1;
  if (p.schedule.num_splits > 1) {
    store_partial(p, w.partial_row + r, softmax);
  } else {
    const Row row = row_at(p, w, w.first_row + r);
    factor = finish_row(p, w.sequence, row, softmax, sink_of(p, w.sequence, row), true);
  }
  block.end_of_row[r] = end.x == 0 ? -1 : factor;
  if (second_run) return false;
  // A sum l that is not finite comes from a score that is attended: the row is right. So is one without keys.
  const bool needs_fixup = end.y != 0 && end.x != 0 && is_finite(end.x);
  block.fixups[r] = needs_fixup ? finite_values : 0;
  return needs_fixup;
}

/// Writes a warp's results in whole chunks of 16 bytes, by way of its part of the tile of queries.
template <class B>
__device__ inline void store_chunks(const Params &p, const BlockState<B> &block, const typename B::Out &o,
                                    uint32_t tile) {
  using Tile = typename B::QueryTile;
  constexpr int near = B::warp_columns / 8;  // chunks next to each other
  const WorkTile &w = block.work;
  const int thread = thread_number(), lane = thread % 32, warp = thread / 32, first = B::column_of(warp, 0) / 8;
  const auto address = [&](int row, int j) {
    const uint32_t at =
        tile + first / Tile::row_chunks * Tile::panel_bytes + Tile::lane_offset(row, first % Tile::row_chunks);
    return (at ^ j % near * 16) + j / near * (B::KeyTile::panels * Tile::panel_bytes);
  };
  unroll<B::Rows::rows>([&](int r) {
    const int row = mma::row_of_tile<B>(thread, r);
    const float factor = block.end_of_row[row];
    o.for_each_pair_in_row(r, [&](float x, float y, int j) {
      st_shared_b32(address(row, j) + lane % 4 * 4,
                    pack<typename B::Element>(times_factor(x, factor), times_factor(y, factor)));
    });
  });
  __syncwarp();
#pragma unroll 1
  for (int i = lane; i < B::warp_rows * B::Out::column_blocks; i += 32) {
    const int row = B::first_row(warp) + i / B::Out::column_blocks, j = i % B::Out::column_blocks;
    const int column = B::column_of(warp, 8 * j);
    if (w.first_row + row >= w.rows || column >= p.head_dim_v) continue;
    char *const to = out_row(p, w.sequence, row_at(p, w, w.first_row + row)) + column * 2;
    *reinterpret_cast<uint4 *>(to) = ld_shared_v4_b32(address(row, j));
  }
}

/// The same of rows of any kind, and of those that need it in a second pass.
template <class B>
__device__ inline void store_quads(const Params &p, const BlockState<B> &block, const typename B::Out &o, uint32_t tile,
                                   bool second_run) {
  const WorkTile &w = block.work;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const StagedRows<B> staged(tile);
  const int column = B::column_of(warp, 4 * lane), columns = p.head_dim_v - column;
#pragma unroll 1
  for (int r = 0; r < B::Rows::rows; r++) {
    staged.put(o, r);
#pragma unroll 1
    for (int i = 0; i < 8; i++) {
      const int row_in_tile = B::first_row(warp) + 8 * r + i;
      if (w.first_row + row_in_tile >= w.rows || (second_run && !block.fixups[row_in_tile]) || columns <= 0) continue;
      const Row row = row_at(p, w, w.first_row + row_in_tile);
      const float factor = block.end_of_row[row_in_tile];
      Quad sum = staged.quad(i, lane);
      unroll<4>([&](int c) { sum.x[c] = times_factor(sum.x[c], factor); });
      if (second_run) {
        unroll<4>([&](int c) {
          if (c >= columns || !is_finite(sum.x[c])) return;
          const float special = nonfinite_sum<B::has_trees>(p, w, row, block.attended(row_in_tile), column + c);
          sum.x[c] = special == 0 ? sum.x[c] : special;
        });
      }
      if (p.schedule.num_splits > 1) {
        float *const to = p.o_partial + (w.partial_row + row_in_tile) * p.head_dim_v + column;
        store_quad(reinterpret_cast<char *>(to), sizeof(float), f32, sum, columns);
      } else {
        char *const to = out_row(p, w.sequence, row) + column * p.out.stride[3];
        store_quad(to, p.out.stride[3], p.out_dtype, sum, columns);
      }
    }
  }
}

/// Writes a block's results, and notes which rows need a second pass, which then has sums of finite values. True when
/// there may be one by this thread.
template <class B>
__device__ inline bool store(const Params &p, const SharedMemory<B> &shared, const typename B::Out &o,
                             const OnlineSoftmax<B> &online, bool second_run) {
  BlockState<B> &block = *shared.block;
  const int thread = threadIdx.x, warp = thread / 32;
  const EndOfRows<B> ends(shared.weights);
  unroll<B::Rows::rows>([&](int r) {
    const float l = sum_over_lanes<4>(online.l[r]), nonfinite = sum_over_lanes<4>(mma::any_nonfinite<B>(o, r));
    if (thread % 4 != 0) return;
    const int row = mma::row_of_tile<B>(thread, r);
    ends.put(warp, row, l, nonfinite);
    if (B::rank(warp) == 0) block.end_of_row[row] = -online.neg_max[r];
  });
  __syncthreads();
  const bool needs_fixup = finish_rows<B>(p, block, ends, second_run);
  __syncthreads();
  const bool chunks = p.schedule.num_splits == 1 && !second_run && p.out_dtype == B::dtype &&
                      mma::has_aligned_rows(p.out) && p.head_dim_v % 8 == 0;
  if (chunks) {
    store_chunks<B>(p, block, o, shared.queries);
  } else {
    store_quads<B>(p, block, o, shared.queries, second_run);
  }
  return needs_fixup;
}

}  // namespace fa::kernels::mma_wide
