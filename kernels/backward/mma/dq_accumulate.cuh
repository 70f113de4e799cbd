// A step's part of dQ in Entry::bwd_fused: all warps multiply dS by the block's keys and add the product to sums that
// blocks of keys share. Blocks may add in any order, or, by a semaphore, each tile of keys after the one before it, so
// that sums have one order. A block waits only for one whose keys were taken earlier (take_key_work_tile), and only
// when it is about to add; so some block always goes on. Products of a step run in the next one, when dS of all warps
// is in shared memory. The semaphore is released one step later still, when the additions have long arrived. All blocks
// of a column begin at the last rows that attend their keys (StreamCoord), so that those with the same rows follow one
// another at a step's distance and do not wait after that.
#pragma once

#include "backward/mma/exchange.cuh"
#include "collective/dq_accum.cuh"
#include "collective/nonfinite.cuh"
#include "common/numbers.cuh"

namespace fa::kernels::backward_mma {

/// The part of a tile of dQ that a warp computes: as square as can be, so that operands are read few times.
template <class B>
struct QueryTile {
  static constexpr int pairs_of_blocks = B::columns / 32;
  static constexpr bool two = 0 < pairs_of_blocks && pairs_of_blocks <= B::warps &&
                              B::dim % (B::warps / (pairs_of_blocks + (pairs_of_blocks == 0)) * 16) == 0;
  static constexpr int row_blocks = two ? 2 : 1;
  static constexpr int teams = B::columns / (16 * row_blocks);  // of warps with the same queries
  static constexpr int columns = B::dim / (B::warps / teams);
  static_assert(!B::sums_queries ||
                (teams * 16 * row_blocks == B::columns && B::warps % teams == 0 && columns % 16 == 0));
  static constexpr bool in_a_panel = B::OwnTile::panel_columns % columns == 0;
  using Sums = AccumulatorTile<row_blocks, columns / 8>;
};

template <class B>
class DqAccumulator {
 public:
  using Part = QueryTile<B>;

  __device__ DqAccumulator(const BackwardParams &params, const SharedMemory<B> &memory) : p(params), shared(memory) {}

  /// Around the barrier of a step, behind which dS of the step before is visible.
  __device__ void before_barrier() const {
    if (threadIdx.x == 0) acquire();
  }
  __device__ void after_barrier() const {
    if (threadIdx.x == 0) release(&DqSemaphore::ended);
    if (shared.state->dq_semaphore.to != nullptr) add();
  }
  /// By one thread, behind a barrier behind after_barrier: key warps store dS of a tile before the next one.
  __device__ void note(StreamCoord at, bool odd) const {
    DqSemaphore &semaphore = shared.state->dq_semaphore;
    const int64_t row = at.head * p.stats_rows + at.tile * B::columns;
    semaphore.ended = semaphore.begun;
    semaphore.begun = semaphore.counter != nullptr ? semaphore.counter + row / dq_semaphore_rows : nullptr;
    semaphore.to = semaphore.sums + row * B::dim;
    semaphore.waits = semaphore.before.holds(at.tile);
    semaphore.odd = odd;
  }
  /// The rest, after the last step.
  __device__ void finish() const {
    before_barrier();
    __syncthreads();
    after_barrier();
    __syncthreads();
    if (threadIdx.x == 0) release(&DqSemaphore::begun);
  }

 private:
  /// Adds dS K.
  __device__ void add() const {
    typename Part::Sums sum;
    sum.clear();
    if (shared.state->dq_semaphore.odd || !is_one_factor()) {
      multiply<true>(sum);
    } else {
      multiply<false>(sum);
    }
    if constexpr (B::scales_ds) {
      const float inverse = 1 / factor_of_sum();
      sum.for_each([&](float &x, int, int) { x *= inverse; });
    }
    const int thread = B::thread(), warp = thread / 32;
    float *const to = shared.state->dq_semaphore.to + first_row(warp) * B::dim + first_column(warp) * block_rows +
                      dq_offset(thread % 32, 0);
    unroll<Part::row_blocks>([&](int i) {
      unroll<Part::columns / 8>(
          [&](int j) { add_block(to + i * block_rows * B::dim + j * block_sums, sum.block[i][j]); });
    });
  }

  /// The least of the key warps' factors: that of the largest terms.
  __device__ float factor_of_sum() const {
    float least = infinity;
    if constexpr (B::scales_ds) {
      unroll<B::teams>([&](int team) { least = fminf(least, shared.state->ds_scales[team]); });
    }
    return least;
  }

  __device__ bool is_one_factor() const {
    bool one = true;
    if constexpr (B::scales_ds) {
      unroll<B::teams>([&](int team) { one &= shared.state->ds_scales[team] == shared.state->ds_scales[0]; });
    }
    return one;
  }

  /// Rescales the dS of a key warp from its scale to the sum's. In two steps, as f16 holds no power of two below 2^-24
  /// and infinities must stay.
  __device__ void rescale(FragmentsA<typename B::Element, Part::row_blocks> &a, int team) const {
    const float ratio = factor_of_sum() / shared.state->ds_scales[team];
    const float first = fmaxf(ratio, 0x1p-24f), second = fmaxf(ratio / first, 0x1p-24f);
    unroll<Part::row_blocks>([&](int i) {
      unroll<4>(
          [&](int n) { a.block[i].word[n] = multiply_halves(multiply_halves(a.block[i].word[n], first), second); });
    });
  }

  /// Waits, by one thread, until all blocks before this one have added to the tile.
  __device__ void acquire() const {
    const DqSemaphore &semaphore = shared.state->dq_semaphore;
    if (semaphore.begun == nullptr || !semaphore.waits) return;
    while (ld_acquire_gpu(semaphore.begun) != semaphore.key_tile) {
    }
  }
  /// Lets the next block add, by one thread, after a barrier behind add.
  __device__ void release(int32_t *DqSemaphore::*counter) const {
    const DqSemaphore &semaphore = shared.state->dq_semaphore;
    if (semaphore.*counter != nullptr) st_release_gpu(semaphore.*counter, semaphore.key_tile + 1);
  }

  __device__ static int first_row(int warp) { return warp % Part::teams * 16 * Part::row_blocks; }
  __device__ static int first_column(int warp) { return warp / Part::teams * Part::columns; }

  /// Careful: keys may be NaN or infinite where not all attend, or the dS of key warps has several scales.
  template <bool Careful>
  __device__ void multiply(typename Part::Sums &sum) const {
    const int thread = B::thread(), lane = thread % 32, warp = thread / 32;
    const uint32_t a_at = shared.exchange() + SmemDs<B>::matrices_at(SmemDs<B>::lane_offset(lane), 0, 0) +
                          first_row(warp) / 8 * SmemDs<B>::block_bytes;
    const int chunk = first_column(warp) / 8 + lane_chunk(lane);
    const uint32_t first = shared.own(0) + B::OwnTile::offset(lane_row(lane), chunk);
    unroll<B::rows / 16>([&](int k) {
      FragmentsA<typename B::Element, Part::row_blocks> a;
      unroll<Part::row_blocks>([&](int i) { ldmatrix_x4_trans(a.block[i].word, SmemDs<B>::matrices_at(a_at, i, k)); });
      if constexpr (Careful && B::scales_ds) rescale(a, k * 16 / B::warp_rows);
      unroll<Part::columns / 16>([&](int j) {
        uint32_t b[4];
        const uint32_t at =
            Part::in_a_panel ? first ^ 32 * j : shared.own(0) + B::OwnTile::offset(lane_row(lane), chunk + 2 * j);
        ldmatrix_x4_trans(b, at + k * 16 * B::OwnTile::row_bytes);
        if (Careful && shared.state->dq_semaphore.odd)
          unroll<4>([&](int n) { b[n] = finite_halves(b[n], B::exponents); });
        sum.multiply_add(j, a, b);
      });
    });
  }

  const BackwardParams &p;
  const SharedMemory<B> &shared;
};

}  // namespace fa::kernels::backward_mma
