// The warps that add dQ to sums that blocks of keys share, each the rows of its lanes, chunk by chunk. Blocks may add
// in any order, or, by a semaphore of each warp's rows, each after the one with the keys before, so that sums have one
// order. A block waits only for one whose keys were taken earlier (take_key_work_tile), so some block always goes on.
// All blocks of a column begin at the last rows that attend their keys (StreamCoord), so that those with the same rows
// follow one another at a step's distance and do not wait after that.
#pragma once

#include "backward/tcgen05/block.cuh"
#include "collective/dq_chunk.cuh"

namespace fa::kernels::backward_tcgen05 {

template <class B>
class DqReduce {
  static constexpr int halves = B::accesses, chunk_rows = 16;  // a warp's rows have two chunks a half
  // Of the last half's columns the first ones may be in the half before.
  static constexpr int blocks_before = (64 * halves - B::dim) / block_columns;
  static_assert(dq_slots == 2 && bytes_of_chunk == dq_chunk_bytes);

 public:
  __device__ DqReduce(const BackwardParams &p, const SharedMemory<B> &shared)
      : p_(p), shared_(shared), state_(*shared.state), slots_(shared.dq(threadIdx.x / 32)) {}

  __device__ void run() {
    for_each_step(state_, [&](uint32_t n, StreamCoord tile) {
      const int64_t row = state_.row + tile.head * p_.stats_rows + tile.tile * B::columns + first_row();
      wait(state_.dq_full, n);
      tcgen05_fence_after_thread_sync();
      DqChunk dq[halves][2];
      take(dq, n);
      unroll<halves>([&](int half) {
        wait_for_slots();
        unroll<2>([&](int i) {
          store_dq_chunk(slots_ + i * dq_chunk_bytes, dq[half][i], [=](int j) { return j >= first_block(half); });
        });
        fence_proxy_async();
        __syncwarp();
        if (lane() == 0) add(row, half, tile.tile);
      });
      if (lane() == 0 && p_.dq_semaphore != nullptr) release_semaphore(row);
    });
    if (lane() == 0) cp_async_bulk_wait_group();
  }

 private:
  /// Of the blocks that a half adds.
  __device__ static constexpr int first_block(int half) { return half > 0 ? blocks_before : 0; }

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

  /// Until the chunks before have been read.
  __device__ void wait_for_slots() const {
    if (lane() == 0) cp_async_bulk_wait_group_read();
    __syncwarp();
  }

  /// By one thread; row: the warp's first one.
  __device__ void add(int64_t row, int half, int tile) const {
    if (half == 0 && p_.dq_semaphore != nullptr && state_.before.holds(tile)) {
      const int32_t key_tile = state_.work.first / B::rows;
      while (ld_acquire_gpu(counter(row)) != key_tile) {
      }
      fence_proxy_async_global();
    }
    const int before = first_block(half) * block_sums * 4;
    unroll<2>([&](int i) {
      float *const to = p_.dq_accum + (row + chunk_rows * i) * B::dim + 64 * half * block_rows;
      cp_reduce_async_bulk_add_f32(to, slots_ + i * dq_chunk_bytes + before, dq_chunk_bytes - before);
    });
    cp_async_bulk_commit_group();
  }

  /// Lets the next block add once these sums are in memory.
  __device__ void release_semaphore(int64_t row) const {
    cp_async_bulk_wait_group();
    fence_proxy_async_global();
    st_release_gpu(counter(row), state_.work.first / B::rows + 1);
  }

  __device__ int32_t *counter(int64_t row) const { return p_.dq_semaphore + row / dq_semaphore_rows; }

  const BackwardParams &p_;
  const SharedMemory<B> &shared_;
  State<B> &state_;
  uint32_t slots_;  // this warp's
};

}  // namespace fa::kernels::backward_tcgen05
