// The end of a block whose warps have the same rows: the sums of each over its keys become results, half a warp a row.
#pragma once

#include <cfloat>

#include "collective/epilogue.cuh"
#include "collective/nonfinite.cuh"
#include "common/quad.cuh"
#include "forward/mma/softmax.cuh"
#include "forward/mma/store.cuh"

namespace fa::kernels::mma {

/// The sums of all warps in shared memory: O where the ring of tiles was, neg_max and l where the queries were.
template <class B>
class CrossWarpReduction {
 public:
  static constexpr int warps = B::shape.warps;
  static_assert(warps * B::rows * B::dim * int(sizeof(float)) <= B::stages * B::KeyTile::bytes);
  static_assert(warps * B::rows * int(sizeof(float2)) <= B::QueryTile::bytes);

  __device__ explicit CrossWarpReduction(const SharedMemory<B> &shared) : values_(shared.ring), rows_(shared.queries) {}

  /// Stores a warp's sums of the first `rows` rows.
  __device__ void put(const OnlineSoftmax<B> &softmax, const typename B::Out &o, int rows) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, first = B::Out::first_row(lane);
    uint32_t at[exchanged];  // neighbouring blocks; rows that are 8 apart exchange them alike
    unroll<exchanged>([&](int j) { at[j] = block(warp, first, j) + B::Out::first_column(lane) * int(sizeof(float)); });
    unroll<B::Rows::rows>([&](int r) {
      if (r * 8 >= rows) return;
      const float l = sum_over_lanes<4>(softmax.l[r]);
      if (lane % 4 == 0) st_shared_v2_f32(of_row(warp, r * 8 + first), softmax.neg_max[r], l);
      o.for_each_pair_in_row(r, [&](float x, float y, int j) {
        const int further = r * 8 * B::dim + j / exchanged * exchanged * 8;
        st_shared_v2_f32(at[j % exchanged] + further * int(sizeof(float)), x, y);
      });
    });
  }

  /// neg_max and l of a row.
  __device__ float2 row(int warp, int row) const { return ld_shared_v2_f32(of_row(warp, row)); }

  /// Columns d .. d + 3 of a row.
  __device__ Quad quad(int warp, int row, int d) const {
    const uint4 x = ld_shared_v4_b32(block(warp, row, d / 8) + d % 8 * int(sizeof(float)));
    return {{__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)}};
  }

 private:
  __device__ uint32_t of_row(int warp, int row) const { return rows_ + (warp * B::rows + row) * int(sizeof(float2)); }

  /// Columns 8 j .. 8 j + 7 of a row; blocks are exchanged, so that neighbouring rows do not share banks.
  __device__ uint32_t block(int warp, int row, int j) const {
    return values_ + ((warp * B::rows + row) * B::dim + (j ^ row % exchanged) * 8) * int(sizeof(float));
  }

  static constexpr int exchanged = 4;
  static_assert(8 % exchanged == 0 && B::dim / 8 % exchanged == 0);

  uint32_t values_, rows_;
};

/// l = sum_w e^(m_w - m) l_w, O = sum_w e^(m_w - m) O_w with m = max_w m_w, two rows of this warp at a time; writes
/// results, and sets the Fixup bits of rows that need a second pass, as store does. True when there is one.
template <class B>
__device__ inline bool combine_warps(const Params &p, BlockState<B> *block, const CrossWarpReduction<B> &sums,
                                     bool second_run) {
  constexpr int warps = B::shape.warps, lanes = 16;  // of a row
  const WorkTile &w = block->work;
  const bool partial = p.schedule.num_splits > 1;
  const int lane = threadIdx.x % lanes, half = threadIdx.x & lanes, rows = min(B::rows, w.rows - w.first_row);
  bool needs_fixup = false;
#pragma unroll 1
  for (int first = threadIdx.x / 32; first < rows; first += 2 * warps) {
    const int r = half == 0 ? first : first + warps;
    bool finite = true;
    float neg_max = FLT_MAX, l = 0;
    if (r < rows && (!second_run || block->fixups[r])) {
      float2 of_warps[warps];
      unroll<warps>([&](int i) { of_warps[i] = sums.row(i, r); });
      float weight[warps];
      unroll<warps>([&](int i) { neg_max = fminf(neg_max, of_warps[i].x); });
      unroll<warps>([&](int i) {
        weight[i] = ex2_approx_ftz((neg_max - of_warps[i].x) * log2_e);
        l += weight[i] * of_warps[i].y;
      });
      const Softmax softmax = {l == 0 ? -infinity : reference<B>(p, neg_max, true), l};
      float factor = 1;
      char *to;
      if (partial) {
        if (lane == 0) store_partial(p, w.partial_row + r, softmax);
        to = reinterpret_cast<char *>(p.o_partial + (w.partial_row + r) * p.head_dim_v);
      } else {
        const Row row = B::row_of(p, w, w.first_row + r);
        factor = finish_row(p, w.sequence, row, softmax, sink_of(p, w.sequence, row), lane == 0);
        to = out_row(p, w.sequence, row);
      }
#pragma unroll 1
      for (int d = 4 * lane; d < p.head_dim_v; d += 4 * lanes) {
        Quad sum;
        unroll<warps>([&](int i) {
          const Quad of_warp = sums.quad(i, r, d);
          unroll<4>([&](int c) { sum.x[c] = fmaf(weight[i], of_warp.x[c], sum.x[c]); });
        });
        if (!partial) unroll<4>([&](int c) { sum.x[c] = finished(sum.x[c], 0, factor, softmax); });
        if (second_run) {
          const Row row = B::row_of(p, w, w.first_row + r);
          unroll<4>([&](int c) {
            if (d + c >= p.head_dim_v || !is_finite(sum.x[c])) return;
            const float special = nonfinite_sum<B::has_trees>(p, w, row, block->attended(r), d + c);
            sum.x[c] = special == 0 ? sum.x[c] : special;
          });
        }
        finite &= sum.finite();
        if (partial) {
          store_quad(to + d * int(sizeof(float)), sizeof(float), f32, sum, p.head_dim_v - d);
        } else {
          store_quad(to + d * p.out.stride[3], p.out.stride[3], p.out_dtype, sum, p.head_dim_v - d);
        }
      }
    }
    const bool nonfinite = __ballot_sync(~0u, !finite) >> half & 0xffff;
    if (!second_run && r < rows) {
      const int fixups = fixups_of<B>(*block, r, neg_max, l, nonfinite);
      if (lane == 0) block->fixups[r] = uint8_t(fixups);
      needs_fixup |= fixups != 0;
    }
  }
  return needs_fixup;
}

/// Combines the sums of a block's warps in the memory of the ring of tiles, which is free by now, and writes the
/// results.
template <class B>
__device__ inline bool join_warps(const Params &p, const SharedMemory<B> &shared, const OnlineSoftmax<B> &softmax,
                                  const typename B::Out &o, bool second_run) {
  const CrossWarpReduction<B> sums(shared);
  sums.put(softmax, o, shared.block->work.rows - shared.block->work.first_row);
  __syncthreads();
  return combine_warps<B>(p, shared.block, sums, second_run);
}

}  // namespace fa::kernels::mma
