// The plain entry point: attention of a tile of queries over tiles of keys and values that are widened from codes,
// where scores need scales alone; PlainPass::step has the five lines.
#pragma once

#include "forward/mma/products.cuh"
#include "forward/mma/scores.cuh"
#include "forward/mma/store.cuh"
#include "forward/mma_quantised/forward.cuh"
#include "forward/mma_quantised/plain_rows.cuh"

namespace fa::kernels::mma_quantised {

/// P as A of the second product.
template <class B>
struct PlainWeights {
  FragmentsA<typename B::Element, B::row_blocks> columns[B::keys / 16];

  template <class>
  __device__ const auto &columns_as_a(int k) const {
    return columns[k];
  }

  /// The word of a lane's row and block of 8 columns.
  __device__ uint32_t &at(int row, int block) {
    return columns[block / 2].block[row / 2].word[block % 2 * 2 + row % 2];
  }
};

/// The online softmax in base 2: -m of each of a lane's rows, and this lane's part of l. A full tile's maxima are
/// computed only where its sums show that a weight is too large.
template <class B>
struct PlainSoftmax {
  using Rows = typename B::Rows;
  static constexpr float offset = kernels::Element<B::dtype>::max_offset;
  /// The limit of the sum of a lane's weights of a tile, and so of each weight; the sums of a tile that has set m are
  /// below.
  static constexpr float max_sum = 0x1p15f;
  static constexpr float limit = offset + 1;
  static_assert(B::keys / 4 <= 16);  // 16 * 2^11 = 2^15

  Rows neg_max, l;

  __device__ PlainSoftmax() {
    neg_max.fill(FLT_MAX);  // finite: 2^(-inf - m) is 0, not NaN
    l.fill(0);
  }

  /// m' = max(m, rowmax S), and l and O in its scale, for rows that have risen above the limit.
  __device__ void update(typename B::Out &o, const Rows &top) {
    bool moved = false;
    unroll<Rows::rows>([&](int r) { moved |= top[r] + neg_max[r] > limit; });
    if (!__any_sync(~0u, moved)) return;
    Rows a;
    unroll<Rows::rows>([&](int r) {
      const float t = max_over_lanes<4>(top[r]), before = neg_max[r];
      const float lifted = fabsf(t) < exact_score_threshold ? offset - t : -t;
      const float now = t + before > limit ? lifted : before;
      a[r] = ex2_approx_ftz(now - before);
      neg_max[r] = now;
      l[r] *= a[r];
    });
    o.scale_rows(a);
  }
};

/// A pass of a block over its tiles. In a second pass values that are not finite count as 0, and all weights are exact.
template <class B>
struct PlainPass {
  using Rows = typename B::Rows;

  const QuantisedParams &p;
  const PlainMemory<B> &shared;
  mma::Queries<B> queries;
  PlainRows<B> tiles;
  PlainSoftmax<B> softmax;
  typename B::Out out;
  float unit = 0x1p-126f;  // of out, in calls with scales of values
  bool begun = false;      // whether this warp has seen a tile

  __device__ PlainPass(const QuantisedParams &params, const PlainMemory<B> &memory)
      : p(params), shared(memory), queries(memory.queries), tiles(params, memory, memory.block->tiles.end - 1) {
    out.clear();
  }

  /// Where the tile's exponents of this lane's columns are: 1, where products have been multiplied with them.
  __device__ uint32_t exponents(bool ones) const {
    return shared_address(shared.state->exponents[ones]) + B::Scores::first_column(mov_tid_x() % 32) * 4;
  }

  /// Products to scores in units of exponents; -inf where masked.
  __device__ void mask(typename B::Scores &s, int tile) const {
    const uint32_t from = exponents(false);
    unroll<B::Scores::column_blocks>([&](int j) {
      const float2 scale = ld_shared_v2_f32(from + j * 32);
      unroll<Rows::rows>([&](int r) { s.at(r, 8 * j) *= scale.x, s.at(r, 8 * j + 1) *= scale.y; });
    });
    mma::mask_intervals<B>(s, tile * B::keys, *shared.block);
  }

  __device__ Rows row_max(const typename B::Scores &s, uint32_t from) const {
    Rows top;
    top.fill(-infinity);
    unroll<B::Scores::column_blocks>([&](int j) {
      const float2 scale = ld_shared_v2_f32(from + j * 32);
      unroll<Rows::rows>(
          [&](int r) { top[r] = fmaxf(top[r], fmaxf(s.at(r, 8 * j) * scale.x, s.at(r, 8 * j + 1) * scale.y)); });
    });
    return top;
  }

  /// P = 2^(c S - m), times the scales of values where these have f32's exponents, and the sums of rows without them.
  __device__ Rows weigh(PlainWeights<B> &weights, const typename B::Scores &s, uint32_t from) const {
    Rows sum;
    sum.fill(0);
    unroll<B::Scores::column_blocks>([&](int j) {
      const float2 scale = ld_shared_v2_f32(from + j * 32);
      const float2 of_values = B::f32_scales ? ld_shared_v2_f32(scales_of_values() + j * 32) : float2{1, 1};
      unroll<Rows::rows>([&](int r) {
        const float x = ex2_approx_ftz(fmaf(s.at(r, 8 * j), scale.x, softmax.neg_max[r]));
        const float y = ex2_approx_ftz(fmaf(s.at(r, 8 * j + 1), scale.y, softmax.neg_max[r]));
        sum[r] += x;
        sum[r] += y;
        weights.at(r, j) = pack<typename B::Element>(x * of_values.x, y * of_values.y);
      });
    });
    return sum;
  }

  /// Where the scales of values of this lane's columns are, of f32.
  __device__ uint32_t scales_of_values() const {
    return shared_address(shared.state->scales) + B::Scores::first_column(mov_tid_x() % 32) * 4;
  }

  /// Multiplies weights of f16 by their values' scales, which are f16 too.
  __device__ void scale_weights(PlainWeights<B> &weights) const {
    const uint32_t from = shared_address(shared.state->scales) + B::Scores::first_column(mov_tid_x() % 32) * 2;
    unroll<B::Scores::column_blocks>([&](int j) {
      uint32_t scale;
      asm volatile("ld.shared.b32 %0, [%1];" : "=r"(scale) : "r"(from + j * 16) : "memory");
      unroll<Rows::rows>([&](int r) {
        const __half2 x =
            __hmul2(*reinterpret_cast<const __half2 *>(&weights.at(r, j)), *reinterpret_cast<const __half2 *>(&scale));
        weights.at(r, j) = *reinterpret_cast<const uint32_t *>(&x);
      });
    });
  }

  __device__ void step(int tile) {
    tiles.next(tile, out, unit);
    if (shared.block->second_run) {
      clear_nonfinite(shared.values(), B::KeyTile::bytes, infinities<B::dtype>);
      __syncthreads();
    }
    const KeyBlockRange of_warp = shared.state->of_warp[threadIdx.x / 32];
    if (tile < of_warp.first || tile >= of_warp.end) return;
    const bool masked = shared.block->second_run || !of_warp.full(tile);
    const uint32_t from = exponents(masked);
    PlainWeights<B> weights;
    Rows sum;
#pragma unroll 1
    for (bool with_max = masked || !begun;; with_max = true) {
      typename B::Scores s;
      mma::multiply_keys<B>(s, queries, shared.keys());  // S = Q K^T
      if (masked) mask(s, tile);
      if (with_max) softmax.update(out, row_max(s, from));  // m' = max(m, rowmax S), and the scale a of l and O
      sum = weigh(weights, s, from);                        // P = exp2(c S - m')
      bool large = false;
      unroll<Rows::rows>([&](int r) { large |= sum[r] > PlainSoftmax<B>::max_sum; });
      if (with_max || !__any_sync(~0u, large)) break;
    }
    begun = true;
    unroll<Rows::rows>([&](int r) { softmax.l[r] += sum[r]; });  // l = l a + rowsum P
    if (!B::f32_scales && tiles.has_scales_of_values()) scale_weights(weights);
    mma::multiply_values<B>(out, weights, shared.values());  // O = O a + P V
  }

  __device__ void run() {
    const KeyBlockRange &all = shared.block->tiles;
    const int first = all.first;
#pragma unroll 1
    for (int tile = all.end - 1; tile >= first; tile--) step(tile);
    float factor = unit;
    if (!tiles.has_scales_of_values()) {
      const WorkTile &w = shared.block->work;
      factor = scale_at(p.factors[v_scale], w, {p.page_size != 0 ? 0 : w.sequence.k_batch, 0});
      if (shared.block->second_run && !is_finite(factor)) factor = 0;
    }
    factor *= unit_of_codes<typename B::Element>(p.v_dtype);
    out.for_each([=](float &x, int, int) { x *= factor; });
  }
};

/// Stores which tiles each warp's rows attend, from the intervals of these rows in shared memory.
template <class B>
__device__ inline void find_tiles_of_warps(const PlainMemory<B> &shared) {
  const mma::BlockState<B> &block = *shared.block;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  KeysOfRows rows;
  const int row = B::first_row(warp) + lane;
  if (lane < B::warp_rows && block.work.first_row + row < block.work.rows) rows.add(block.attended(row));
  rows.reduce_over_warp();
  KeyBlockRange tiles = {0, 0, 0, 0};
  if (!rows.empty())
    tiles = {rows.low / B::keys, (rows.high - 1) / B::keys + 1, (rows.full_low + B::keys - 1) / B::keys,
             rows.full_high / B::keys};
  if (lane == 0) shared.state->of_warp[warp] = tiles;
}

template <class B>
__device__ inline void forward_plain(const QuantisedParams &p) {
  extern __shared__ __align__(128) char memory[];
  const PlainMemory<B> shared(memory);
  mma::BlockState<B> *const block = shared.block;
  {
    const WorkTile w = get_initial_work_tile(p, B::rows);
    if (w.rows == 0) return;
    const KeyBlockRange tiles = mma::key_block_range<B>(p, w, Interval{0, w.sequence.keys}, block);
    if (threadIdx.x == 0) {
      block->work = w, block->tiles = tiles, block->second_run = false;
      block->table = p.block_table.data + w.sequence.index * p.block_table.stride[0];
    }
    if (threadIdx.x < B::keys) shared.state->exponents[1][threadIdx.x] = 1;
  }
  __syncthreads();
  find_tiles_of_warps(shared);
#pragma unroll 1
  for (bool second_run = false;; second_run = true) {
    mma::load_queries<B>(p, block->work, shared.queries);
    cp_async_commit_group();
    PlainPass<B> pass(p, shared);
    pass.run();
    if (second_run && threadIdx.x <= B::rows / 32) shared.state->has_keys[threadIdx.x] = 0;
    cp_async_wait_group<0>();
    __syncthreads();  // the tiles are free
    if (second_run) mark_rows_with_keys<B>(shared, pass.softmax.l);
    mma::OnlineSoftmax<B> softmax;
    softmax.neg_max = pass.softmax.neg_max, softmax.l = pass.softmax.l;
    const bool needs_fixup = __syncthreads_or(mma::store<B>(p, block, pass.out, softmax, shared.queries, false));
    if (second_run) return add_special_values(p, shared);
    if (!needs_fixup) return;
    if (threadIdx.x == 0) block->second_run = true;
    __syncthreads();
  }
}

}  // namespace fa::kernels::mma_quantised
