// dQ on its way from tensor memory to sums that blocks of keys share: four warps bring it to shared memory, each the
// rows of its lanes, and one thread adds it, a part of 64 columns after another. Blocks may add in any order, or, by a
// semaphore of each tile of queries, each after the one with the keys before, so that sums have one order. Waiting for
// that, and for the ends of additions, is that thread's alone. A block waits only for one whose keys were taken earlier
// (take_key_work_tile), so some block always goes on. All blocks of a column begin at the last rows that attend their
// keys (StreamCoord), so that those with the same rows follow one another at a step's distance and do not wait after
// that.
#pragma once

#include "backward/tcgen05/block.cuh"
#include "collective/dq_chunk.cuh"

namespace fa::kernels::backward_tcgen05 {

/// Of the columns of part `half` of B::accesses the first ones may be in the part before: blocks of columns.
template <class B>
__device__ constexpr int first_block(int half) {
  return half > 0 ? (64 * B::accesses - B::dim) / block_columns : 0;
}

/// One of the warps that bring dQ to shared memory.
template <class B>
class DqStage {
  static constexpr int halves = B::accesses, chunk_rows = 16;  // a warp's rows have two chunks a half
  static_assert(dq_slots == 2 && bytes_of_chunk == dq_chunk_bytes);

 public:
  __device__ explicit DqStage(const SharedMemory<B> &shared)
      : shared_(shared), state_(*shared.state), slots_(shared.dq(threadIdx.x / 32)) {}

  __device__ void run() {
    for_each_step(state_, [&](uint32_t n, StreamCoord) {
      wait(state_.dq_full, n);
      tcgen05_fence_after_thread_sync();
      DqChunk dq[halves][2];
      take(dq, n);
      unroll<halves>([&](int half) {
        wait(state_.slots_empty, n * halves + half + 1);
        unroll<2>([&](int i) {
          store_dq_chunk(slots_ + i * dq_chunk_bytes, dq[half][i], [=](int j) { return j >= first_block<B>(half); });
        });
        fence_proxy_async();
        arrive_as_warp(state_.slots_full);
      });
    });
  }

 private:
  __device__ static int first_row() { return threadIdx.x / 32 * 32; }

  /// dQ to registers. Its place is free before the semaphore is acquired, so that no product waits for that.
  __device__ __forceinline__ void take(DqChunk (&dq)[halves][2], uint32_t n) {
    if (state_.pairs[n % 4] == Pairs::careful_of_keys) {
      unroll<halves>([&](int half) {
        unroll<2>([&](int i) {
          multiply_finite<B>(dq[half][i], shared_.ds(), first_row() + chunk_rows * i, shared_.k(),
                             B::access_step / 8 * half);
        });
      });
    } else {
      RowWords<B> x[2];
      unroll<2>([&](int i) { load_accumulators<B>(x[i], of_warp(Columns<B>::dq, chunk_rows * i)); });
      tcgen05_wait_ld(x[0], x[1]);
      unroll<halves>([&](int half) { unroll<2>([&](int i) { dq[half][i] = as_accumulators<B, 8>(x[i], half); }); });
    }
    tcgen05_fence_before_thread_sync();
    arrive_as_warp(state_.dq_empty);
  }

  const SharedMemory<B> &shared_;
  State<B> &state_;
  uint32_t slots_;  // this warp's
};

/// The thread that adds dQ.
template <class B>
class DqAdd {
  static constexpr int halves = B::accesses, chunks = B::columns / 16;

 public:
  __device__ DqAdd(const BackwardParams &p, const SharedMemory<B> &shared)
      : p_(p), slots_(shared.dq(0)), state_(*shared.state) {}

  __device__ void run() const {
    const bool in_order = p_.dq_semaphore != nullptr;
    for_each_step(state_, [&](uint32_t n, StreamCoord tile) {
      const int64_t row = state_.row + tile.head * p_.stats_rows + tile.tile * B::columns;
      if (in_order && state_.before.holds(tile.tile)) acquire_semaphore(row);
#pragma unroll 1
      for (int half = 0; half < halves; half++) {
        wait(state_.slots_full, n * halves + half);
        add(row, half);
        cp_async_bulk_wait_group_read();
        mbarrier_arrive(shared_address(&state_.slots_empty));
      }
      if (in_order) release_semaphore(row);
    });
    cp_async_bulk_wait_group();
  }

 private:
  __device__ void acquire_semaphore(int64_t row) const {
    const int32_t key_tile = state_.work.first / B::rows;
    while (ld_acquire_gpu(counter(row)) != key_tile) {
    }
    fence_proxy_async_global();
  }

  __device__ __forceinline__ void add(int64_t row, int half) const {
    const int before = first_block<B>(half) * block_sums * 4;
    float *const to = p_.dq_accum + row * B::dim + 64 * half * block_rows;
    unroll<chunks>([&](int i) {
      cp_reduce_async_bulk_add_f32(to + 16 * i * B::dim, slots_ + i * dq_chunk_bytes + before, dq_chunk_bytes - before);
    });
    cp_async_bulk_commit_group();
  }

  /// Lets the next block add once these sums are in memory.
  __device__ void release_semaphore(int64_t row) const {
    cp_async_bulk_wait_group();
    fence_proxy_async_global();
    st_release_gpu(counter(row), state_.work.first / B::rows + 1);
  }

  /// That of the tile's first rows.
  __device__ int32_t *counter(int64_t row) const { return p_.dq_semaphore + row / dq_semaphore_rows; }

  const BackwardParams &p_;
  uint32_t slots_;  // of all warps
  State<B> &state_;
};

}  // namespace fa::kernels::backward_tcgen05
