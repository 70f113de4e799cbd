// The end of a block whose warps have the same rows: the sums of each over its keys become results, a row a warp.
#pragma once

#include <cfloat>

#include "common/finish.cuh"
#include "common/quad.cuh"
#include "common/repair.cuh"
#include "mma/softmax.cuh"
#include "mma/store.cuh"

namespace fa::kernels::mma {

/// The sums of all warps in shared memory: O where the ring of tiles was, minus_m and l where the queries were.
template <class B>
class WarpSums {
 public:
  static constexpr int warps = B::shape.warps;
  static_assert(warps * B::rows * B::dim * int(sizeof(float)) <= B::stages * B::KeyTile::bytes);
  static_assert(warps * B::rows * int(sizeof(float2)) <= B::QueryTile::bytes);

  __device__ explicit WarpSums(const SharedMemory<B> &shared) : values_(shared.ring), rows_(shared.queries) {}

  __device__ void put(const OnlineSoftmax<B> &softmax, const typename B::Out &o) const {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    unroll<B::Rows::rows>([&](int r) {
      const int row = r * 8 + B::Out::first_row(lane);
      const float l = sum_over_lanes<4>(softmax.l[r]);
      if (lane % 4 == 0) st_shared_v2_f32(of_row(warp, row), softmax.minus_m[r], l);
      o.for_each_pair_in_row(r, [&](float x, float y, int j) {
        st_shared_v2_f32(block(warp, row, j) + B::Out::first_column(lane) * int(sizeof(float)), x, y);
      });
    });
  }

  /// minus_m and l of a row.
  __device__ float2 row(int warp, int row) const { return ld_shared_v2_f32(of_row(warp, row)); }

  /// Columns d .. d + 3 of a row.
  __device__ Quad quad(int warp, int row, int d) const {
    const uint4 x = ld_shared_v4_b32(block(warp, row, d / 8) + d % 8 * int(sizeof(float)));
    return {{__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)}};
  }

 private:
  __device__ uint32_t of_row(int warp, int row) const { return rows_ + (warp * B::rows + row) * int(sizeof(float2)); }

  /// Columns 8 j .. 8 j + 7 of a row; blocks change places, so that neighbouring rows do not share banks.
  __device__ uint32_t block(int warp, int row, int j) const {
    return values_ + ((warp * B::rows + row) * B::dim + (j ^ row % 4) * 8) * int(sizeof(float));
  }

  uint32_t values_, rows_;
};

/// l = sum_w e^(m_w - m) l_w, O = sum_w e^(m_w - m) O_w with m = max_w m_w, of the rows of this warp; writes results,
/// and notes which rows a second run must repair, as store does. True when there is one.
template <class B>
__device__ inline bool join_rows(const Params &p, BlockState<B> *block, const WarpSums<B> &sums, bool second_run) {
  constexpr int warps = B::shape.warps;
  const Work &w = block->work;
  const bool partial = p.schedule.num_splits > 1;
  const int lane = threadIdx.x % 32;
  bool needs_repair = false;
#pragma unroll 1
  for (int r = threadIdx.x / 32; r < B::rows && w.first_row + r < w.rows; r += warps) {
    if (second_run && !block->repairs[r]) continue;
    float minus_m = FLT_MAX, l = 0, weight[warps];
    unroll<warps>([&](int i) { minus_m = fminf(minus_m, sums.row(i, r).x); });
    unroll<warps>([&](int i) {
      weight[i] = ex2_approx_ftz((minus_m - sums.row(i, r).x) * log2_e);
      l += weight[i] * sums.row(i, r).y;
    });
    const Softmax softmax = {l == 0 ? -infinity : reference<B>(p, minus_m, true), l};
    const Row row = B::row_of(p, w, w.first_row + r);
    float factor = 1;
    if (!partial) {
      factor = finish_row(p, w.sequence, row, softmax, sink_of(p, w.sequence, row), lane == 0);
    } else if (lane == 0) {
      store_partial(p, w.partial_row + r, softmax);
    }
    char *const to = partial ? reinterpret_cast<char *>(p.partial_values + (w.partial_row + r) * p.head_dim_v)
                             : out_row(p, w.sequence, row);
    const int64_t stride = partial ? int64_t(sizeof(float)) : p.out.stride[3];
    bool finite = true;
#pragma unroll 1
    for (int d = 4 * lane; d < p.head_dim_v; d += 4 * 32) {
      Quad sum;
      unroll<warps>([&](int i) {
        const Quad of_warp = sums.quad(i, r, d);
        unroll<4>([&](int c) { sum.x[c] = fmaf(weight[i], of_warp.x[c], sum.x[c]); });
      });
      unroll<4>([&](int c) {
        if (!partial) sum.x[c] = finished(sum.x[c], 0, factor, softmax);
        if (second_run && d + c < p.head_dim_v && is_finite(sum.x[c])) {
          const float special = special_value(p, w, row, block->attended(r), d + c);
          sum.x[c] = special == 0 ? sum.x[c] : special;
        }
      });
      finite &= sum.finite();
      store_quad(to + d * stride, stride, partial ? int32_t(f32) : p.out_dtype, sum, p.head_dim_v - d);
    }
    if (!second_run) {
      const int repairs = repairs_of<B>(*block, r, minus_m, l, __any_sync(~0u, !finite));
      if (lane == 0) block->repairs[r] = uint8_t(repairs);
      needs_repair |= repairs != 0;
    }
  }
  return needs_repair;
}

/// Joins the sums of a block's warps, by way of the ring of tiles, which nobody uses any more, and writes results.
template <class B>
__device__ inline bool join_warps(const Params &p, const SharedMemory<B> &shared, const OnlineSoftmax<B> &softmax,
                                  const typename B::Out &o, bool second_run) {
  const WarpSums<B> sums(shared);
  sums.put(softmax, o);
  __syncthreads();
  return join_rows<B>(p, shared.block, sums, second_run);
}

}  // namespace fa::kernels::mma
