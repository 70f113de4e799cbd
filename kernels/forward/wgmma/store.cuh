// From sums to results: O / l and lse; and the rows that need a fix-up pass.
#pragma once

#include "collective/output.cuh"
#include "common/tma.cuh"
#include "forward/wgmma/softmax.cuh"

namespace fa::kernels::wgmma {

/// Row r of a lane: its number in the sequence's head group; w.rows or more where it does not exist. It is recomputed
/// for results, as registers are few while tiles are multiplied.
template <class B>
__device__ inline int32_t row_of_lane(const Params &p, const WorkTile &w, int r) {
  const int group = B::row_group(), rows = rows_of_group<B>(p);
  const int row = threadIdx.x % 128 / 32 * 16 + 8 * r + B::Scores::first_row(threadIdx.x % 32);
  return row < rows ? w.first_row + group * rows + row : w.rows;
}

/// The keys that a lane's rows attend, and the fix-ups that the rows need.
struct RowsOfLane {
  Interval keys[2];
  uint32_t fixups[2] = {0, 0};
};

/// Writes a chunk of 8 columns a lane, of four neighbouring lanes' pairs of four blocks of 8 columns: word[i] is this
/// lane's pair of block first + i.
__device__ inline void store_chunks(char *row, int first, uint32_t (&word)[4], int columns, bool writes) {
  const int t = threadIdx.x % 4;
  // Lanes exchange words until lane t has those of block t: first with a neighbour, then with the one after the next.
  unroll<2>([&](int i) {
    const uint32_t other = __shfl_xor_sync(~0u, t % 2 == 0 ? word[2 * i + 1] : word[2 * i], 1);
    (t % 2 == 0 ? word[2 * i + 1] : word[2 * i]) = other;
  });
  unroll<2>([&](int i) {
    const uint32_t other = __shfl_xor_sync(~0u, t < 2 ? word[i + 2] : word[i], 2);
    (t < 2 ? word[i + 2] : word[i]) = other;
  });
  const int column = (first + t) * 8;
  if (writes && column < columns) *reinterpret_cast<uint4 *>(row + column * 2) = {word[0], word[1], word[2], word[3]};
}

/// Writes one of a lane's rows. By whole warps; `writes`: the row is to be written.
template <class B>
__device__ inline void store_row(const Params &p, const typename B::Out &o, int r, const Target &to, bool writes) {
  char *const row = to.row;
  if (to.dtype == f32) {
    o.for_each_pair_in_row(r, [&](float x, float y, int j) {
      const int column = B::first_column() + j * 8 + threadIdx.x % 4 * 2;
      if (writes && column < p.head_dim_v) *reinterpret_cast<float2 *>(row + column * 4) = {x, y};
    });
  } else {
    unroll<B::own_columns / 32>([&](int i) {
      uint32_t word[4];
      unroll<4>([&](int j) {
        const int column = (4 * i + j) * 8;
        word[j] = pack<typename B::Element>(o.at(r, column), o.at(r, column + 1));
      });
      store_chunks(row, B::first_column() / 8 + 4 * i, word, p.head_dim_v, writes);
    });
  }
}

/// Writes a warp's rows as boxes, from row `first` of the work tile on, through its part of shared memory.
template <class B>
__device__ inline void store_boxes(const Params &p, const WorkTile &w, const TensorMap &map, uint32_t tile,
                                   const typename B::Out &o, int32_t first) {
  using Tile = typename B::OutTile;
  const int lane = threadIdx.x % 32;
  cp_async_bulk_wait_group_read();  // the boxes before
  __syncwarp();
  const uint32_t at = tile + Tile::lane_offset(lane_row(lane), lane_chunk(lane));
  unroll<B::dim_v / 16>([&](int k) {
    stmatrix_x4(Tile::matrices_at(at, 0, k), o.template columns_as_a<typename B::Element>(k).block[0].word);
  });
  fence_proxy_async();
  __syncwarp();
  if (lane != 0) return;
  const Row row = row_at(p, w, first);
  store_rows<Tile>(map, tile, {row.head, w.sequence.q_first + row.query, q_batch(p, w.sequence)});
}

/// True when all rows of a warp are to be written, one after another and as boxes are: nothing behind the sequence's
/// last row would be overwritten.
template <class B>
__device__ inline bool whole_boxes(const Params &p, const TensorMaps &maps, const WorkItem &item, int32_t first) {
  return boxes_of_out(B::dim) && item.pass == WorkPass::main && maps.rows_of_out != 0 && p.schedule.num_splits == 1 &&
         p.schedule.heads_per_tile == 1 && first + rows_of_warp <= item.work.rows;
}

/// Writes a warp's results: all in the main pass, those of rows with Fixup bits in the fix-up pass. Finds the bits.
/// tile: for its boxes.
template <class B>
__device__ inline void store(const Params &p, const TensorMaps &maps, const WorkItem &item, uint32_t tile,
                             typename B::Out &o, const OnlineSoftmax<B> &online, RowsOfLane *rows,
                             Partner<B> &partner) {
  const WorkTile &w = item.work;
  const int32_t first = __shfl_sync(~0u, row_of_lane<B>(p, w, 0), 0);  // of the warp
  const bool boxes = whole_boxes<B>(p, maps, item, first);
  unroll<2>([&](int r) {
    const bool is_fixup = item.pass == WorkPass::fixup, exact = is_fixup && (rows->fixups[r] & exact_weights);
    const int32_t found = row_of_lane<B>(p, w, r);
    const bool exists = found < w.rows;
    const Interval keys = rows->keys[r];
    const float neg_max = online.neg_max[r], l = sum_over_lanes<4>(partner.sum(online.l[r]));
    const float from_zero = -neg_max * (!exact ? ln_2 : B::score_mod ? score_scale(p) : p.scale);
    const Softmax softmax = {l == 0 ? -infinity : B::score_mod ? p.softcap + from_zero : from_zero, l};
    if (!is_fixup) {
      float zero = 0;
      o.for_each_pair_in_row(r, [&](float x, float y, int) { zero = fmaf(x, 0.f, fmaf(y, 0.f, zero)); });
      const bool nonfinite = sum_over_lanes<4>(partner.sum(zero)) != 0;
      const bool needs_exact = !keys.empty() && (l == 0 || !is_finite(l) || fabsf(neg_max) >= exact_score_threshold);
      const bool special = nonfinite && !keys.empty() && (needs_exact || is_finite(l));
      rows->fixups[r] = exists ? (needs_exact ? exact_weights : 0) | (special ? finite_values : 0) : 0;
    }
    const bool writes = exists && item.pass != WorkPass::detect && (!is_fixup || rows->fixups[r] != 0);
    if (!__any_sync(~0u, writes)) return;
    const int32_t row = exists ? found : w.first_row;
    const bool leads = threadIdx.x % 4 == 0 && B::first_column() == 0;
    float factor = 1;
    if (p.schedule.num_splits > 1) {
      if (writes && leads) store_partial(p, w.partial_row + row - w.first_row, softmax);
    } else if (writes) {
      const Row at = row_at(p, w, row);
      factor = finish_row(p, w.sequence, at, softmax, sink_of(p, w.sequence, at), leads);
    }
    if (l == 0) {
      o.for_each_in_row(r, [](float &x, int) { x = 0; });  // NaN, too
    } else {
      o.scale_row(r, factor);
    }
    if (boxes) return;
    store_row<B>(p, o, r, target_of(p, w, row), writes);
    if (!is_fixup) return;
    __syncwarp();
    partner.sync();
    if (B::first_column() != 0) return;
    // Scores of -inf alone leave no key, whatever the values are.
    const uint32_t needs = l == 0 ? 0 : rows->fixups[r] & finite_values;
#pragma unroll 1
    for (int lane = 0; lane < 32; lane += 4) {
      const Interval attended = {__shfl_sync(~0u, keys.low, lane), __shfl_sync(~0u, keys.high, lane)};
      const int32_t other = __shfl_sync(~0u, row, lane);
      if (__shfl_sync(~0u, needs, lane) != 0) add_special_values(p, w, other, attended);
    }
  });
  if constexpr (boxes_of_out(B::dim))
    if (boxes) store_boxes<B>(p, w, maps.out, tile, o, first);
}

}  // namespace fa::kernels::wgmma
