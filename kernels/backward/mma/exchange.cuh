// The exchange between the two warps of a pair, a float for each score; and dS in shared memory, for the whole block.
#pragma once

#include "backward/mma/block.cuh"
#include "common/mbarrier.cuh"

namespace fa::kernels::backward_mma {

/// Numbers are a lane's for the same lane of the other warp: 16 bytes of each lane, block by block.
template <class B>
class Exchange {
 public:
  static constexpr int blocks = B::Scores::column_blocks, block_bytes = 32 * 16;

  __device__ explicit Exchange(uint32_t memory)
      : memory_(memory + B::team(threadIdx.x / 32) * B::row_blocks * blocks * block_bytes) {}

  __device__ void put(int i, int j, const Accumulator &x) const {
    st_shared_v4_b32(
        at(i, j), {__float_as_uint(x.x[0]), __float_as_uint(x.x[1]), __float_as_uint(x.x[2]), __float_as_uint(x.x[3])});
  }
  __device__ Accumulator get(int i, int j) const {
    const uint4 x = ld_shared_v4_b32(at(i, j));
    return {{__uint_as_float(x.x), __uint_as_float(x.y), __uint_as_float(x.z), __uint_as_float(x.w)}};
  }

  /// The value warp arrives and continues; the key warp waits for it.
  __device__ static void arrive() { bar_arrive(1 + B::team(threadIdx.x / 32), 64); }
  __device__ static void wait() { bar_sync(1 + B::team(threadIdx.x / 32), 64); }

 private:
  __device__ uint32_t at(int i, int j) const {
    return memory_ + threadIdx.x % 32 * 16 + (i * blocks + j) * block_bytes;
  }

  uint32_t memory_;
};

/// dS^T, rounded, in the memory of the exchange: each 8 x 8 matrix of it is 128 bytes, a row after the other,
/// which ldmatrix reads as it is. Those of a block of 16 rows by 8 columns lie together, in its block of the exchange.
template <class B>
struct SmemDs {
  static constexpr int matrix_bytes = 128, block_bytes = Exchange<B>::block_bytes;
  static constexpr int blocks = Exchange<B>::blocks;

  /// Columns 16 k .. 16 k + 15 of a key warp's rows.
  template <class T>
  __device__ static void put(uint32_t memory, int k, const FragmentsA<T, B::row_blocks> &x) {
    const uint32_t to =
        memory + B::team(B::thread() / 32) * B::row_blocks * blocks * block_bytes + B::thread() % 32 * 4;
    unroll<B::row_blocks>([&](int i) {
      unroll<4>([&](int n) {
        st_shared_b32(to + (i * blocks + 2 * k + n / 2) * block_bytes + n % 2 * matrix_bytes, x.block[i].word[n]);
      });
    });
  }

  /// A lane's offset from the exchange's address when it reads dS as A: four matrices, of 8 + 8 queries by 8 + 8 keys.
  __device__ static uint32_t lane_offset(int lane) {
    return lane / 8 % 2 * block_bytes + lane / 16 * matrix_bytes + lane % 8 * 16;
  }
  /// Queries 16 m .. by keys 16 k .. of the block.
  __device__ static uint32_t matrices_at(uint32_t lane_address, int m, int k) {
    return lane_address + (k * blocks + 2 * m) * block_bytes;
  }
};

}  // namespace fa::kernels::backward_mma
