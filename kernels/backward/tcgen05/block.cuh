// A block that owns keys and values, and streams the queries of all heads that read them, from the last tile to the
// first (StreamCoord). n is a step: a tile of queries.
//
// clang-format off
//   warp 13: loads         warp 12: products                        warps 4 - 7, 8 - 11: scores of half the queries
//   ──────────────         ─────────────────                        ───────────────────────────────────────────────
//   K, V by TMA ─ kv_full >
//   Q ─────────── q_full ─> S^T(n)  = K Q^T      ────── s_full ───> P^T = 2^(c S^T - lse), in place of S^T
//   dO ───────── do_full ─> dP^T(n) = V dO^T     ────── dp_full ──> dS^T = P^T (dP^T - delta), in place of dP^T
//        <────── do_empty ─ dV     += P^T dO    <────── p_full ────  and in shared memory
//                           S^T(n + 1)
//        <────── q_empty ── dK     += dS^T Q    <────── ds_full ───
//                           dQ      = dS K
//   warp 14: statistics      │                                      warps 0 - 3: dQ
//   ───────────────────      └────────────────────── dq_full ─────> to registers,
//   lse, delta, Pairs           dP^T(n + 1) waits  <─── dq_empty ── to shared memory
//   ─ stats_full ──> scores, products                                │    ^
//                              warp 15: adds dQ <─── slots_full ─────┘    │
//                              by TMA to global memory, ── slots_empty ───┘
//                              under dq_semaphore
// clang-format on
//
// The order of products: S(0); then for each step dP, dV, S of the next step, dK, dQ. dS is computed during dV and the
// next S, weights of the next step during dK and dQ, behind which dQ leaves tensor memory. Products of a thread happen
// one after another, so S takes the place of a P that has been used, and dQ that of a dS, with no further wait. P of a
// careful step depends on dP.
//
// Tensor memory: S^T and P^T, dP^T and dS^T, dV, dK, of 128 lanes, which are keys; dQ, whose lanes are queries, has
// the place of dP^T where there is no other left.
#pragma once

#include "backward/tcgen05/tiles.h"
#include "collective/gradient_score_mod.cuh"
#include "collective/key_block.cuh"
#include "common/register_tile.cuh"
#include "common/tcgen05.cuh"
#include "common/tma.cuh"

namespace fa::kernels::backward_tcgen05 {

template <Dtype Type, int Dim>
struct Block {
  using Element = CudaType<Type>;
  static_assert(sizeof(Element) == 2);                     // SharedTile
  static constexpr uint32_t exponents = infinities<Type>;  // of two elements that are not finite
  static constexpr bool halves = kernels::Element<Type>::halves_gradients;
  static_assert(!kernels::Element<Type>::scales_gradients);
  static constexpr int dim = Dim;
  static constexpr int rows = keys;  // that the block owns
  static constexpr int columns = backward_tcgen05::columns;
  static constexpr Registers registers = registers_of(Dim);
  static constexpr int stages = q_stages, dout_stages = dout_stages_of(Dim);
  // Accesses of tensor memory to a row of sums, and columns from one to the other, of which each has 64.
  static constexpr int accesses = dim > 64 ? 2 : 1, access_step = dim - 64;

  using OwnTile = SharedTile<rows, dim>;
  using StreamedTile = SharedTile<columns, dim>;
  using DsTile = SharedTile<rows, columns>;
};

/// The first warps of the roles behind the four that bring dQ to shared memory.
constexpr int score_warp = 4, product_warp = 12, load_warp = 13, stats_warp = 14, add_warp = 15;

/// How a step treats pairs that do not attend: there are none; their weights are 0; or these may be multiplied by
/// elements of Q or dO that are not finite, which must not reach a sum; or of K, too.
enum class Pairs : int { all, masked, careful, careful_of_keys };

/// The state that all roles share.
template <class B>
struct State : KeyBlock {
  float neg_lse_log2[B::stages][B::columns];  // halved weights (Block::halves) are in it
  float neg_dpsum[B::stages][B::columns];
  // The last steps'; the warps of dQ read a step's after the products, one step late at most.
  Pairs pairs[4];
  uint64_t kv_full, q_full[B::stages], q_empty[B::stages], do_full[B::dout_stages], do_empty[B::dout_stages];
  uint64_t stats_full[B::stages], s_full, p_full, dp_full, ds_full, dq_full, dq_empty, slots_full, slots_empty,
      sums_full;
  uint32_t tensor_memory;  // its address
  int64_t ticket;
  float2 softcap;  // Softcap::constants
};

template <class B>
struct SharedMemory {
  uint32_t begin;
  State<B> *state;

  static constexpr int of_q = 2 * B::OwnTile::bytes, of_dout = of_q + B::stages * B::StreamedTile::bytes;
  static constexpr int of_ds = of_dout + B::dout_stages * B::StreamedTile::bytes, of_dq = of_ds + B::DsTile::bytes;
  static constexpr int of_state = of_dq + 4 * dq_slots * bytes_of_chunk;
  static_assert(of_state + int(sizeof(State<B>)) <= shared_bytes(B::dim));

  __device__ explicit SharedMemory(char *memory)
      : begin(shared_address(memory)), state(reinterpret_cast<State<B> *>(memory + of_state)) {}

  __device__ uint32_t k() const { return begin; }
  __device__ uint32_t v() const { return begin + B::OwnTile::bytes; }
  __device__ uint32_t q(uint32_t stage) const { return begin + of_q + stage * B::StreamedTile::bytes; }
  __device__ uint32_t dout(uint32_t stage) const { return begin + of_dout + stage * B::StreamedTile::bytes; }
  __device__ uint32_t ds() const { return begin + of_ds; }

  /// A warp's chunks of dQ.
  __device__ uint32_t dq(int warp) const { return begin + of_dq + warp * dq_slots * bytes_of_chunk; }

  /// By one thread. Warps arrive by one of their threads, products by a commit.
  __device__ void make_barriers() const {
    constexpr int products = 1, product_thread = 1, stage = 4, scores = 8;
    mbarrier_init(shared_address(&state->kv_full), 1);
    for (int i = 0; i < B::stages; i++) {
      mbarrier_init(shared_address(&state->q_full[i]), 1);
      mbarrier_init(shared_address(&state->q_empty[i]), products + product_thread);
      mbarrier_init(shared_address(&state->stats_full[i]), 1);
    }
    for (int i = 0; i < B::dout_stages; i++) {
      mbarrier_init(shared_address(&state->do_full[i]), 1);
      mbarrier_init(shared_address(&state->do_empty[i]), products + product_thread);
    }
    mbarrier_init(shared_address(&state->s_full), products);
    mbarrier_init(shared_address(&state->p_full), scores);
    mbarrier_init(shared_address(&state->dp_full), products + product_thread);
    mbarrier_init(shared_address(&state->ds_full), scores);
    mbarrier_init(shared_address(&state->dq_full), products + product_thread);
    mbarrier_init(shared_address(&state->dq_empty), stage);
    mbarrier_init(shared_address(&state->slots_full), stage);
    mbarrier_init(shared_address(&state->slots_empty), 1);
    mbarrier_init(shared_address(&state->sums_full), products + product_thread);
    fence_mbarrier_init();
  }
};

/// Named barriers; 0 is __syncthreads.
enum Barrier : int { scores = 1 };

/// The layout of tensor memory. A block has all columns, so that the first is 0.
template <class B>
struct Columns {
  static constexpr uint32_t s = 0, dp = B::columns, dv = 2 * B::columns, dk = dv + B::dim;
  static constexpr uint32_t dq = dk + 2 * B::dim <= tensor_columns ? dk + B::dim : dp;
  static_assert(dk + B::dim <= tensor_columns && B::dim <= B::columns);

  /// Weights in place of sums, as A: the half of a warpgroup is where its sums were. Queries 16 k .. 16 k + 15.
  __device__ static uint32_t weights(uint32_t sums, int k) { return sums + k / 4 * 64 + k % 4 * 8; }
};

__device__ inline int lane() {
  return threadIdx.x % 32;
}

/// A column of tensor memory in the lanes of this warp, from its lane `first` on.
__device__ inline uint32_t of_warp(uint32_t column, int first = 0) {
  return (threadIdx.x / 32 % 4 * 32 + first) * 65536 + column;
}

/// A thread's words of 16 rows of sums.
template <class B>
using RowWords = uint32_t[32 * B::accesses];

/// Begins to read 16 rows of sums.
template <class B>
__device__ __forceinline__ void load_accumulators(RowWords<B> &x, uint32_t from) {
  unroll<B::accesses>([&](int i) { tcgen05_ld_16x256b_x8(x + 32 * i, from + B::access_step * i); });
}

/// `Blocks` blocks of columns from an access on; the next access has those from the ninth one on.
template <class B, int Blocks>
__device__ __forceinline__ AccumulatorTile<1, Blocks> as_accumulators(const RowWords<B> &x, int access = 0) {
  AccumulatorTile<1, Blocks> tile;
  unroll<Blocks>([&](int j) {
    const int word = 32 * access + (j < 8 ? 4 * j : 32 + 4 * (j - B::access_step / 8));
    unroll<4>([&](int e) { tile.block[0][j].x[e] = __uint_as_float(x[word + e]); });
  });
  return tile;
}

/// A warp's arrival, after all of its lanes' accesses.
__device__ inline void arrive_as_warp(uint64_t &barrier) {
  __syncwarp();
  if (elect_sync()) mbarrier_arrive(shared_address(&barrier));
}

/// Waits for the end of phase n.
__device__ inline void wait(uint64_t &barrier, uint32_t n) {
  mbarrier_wait(shared_address(&barrier), n % 2);
}

/// f(n, tile) of each step of the block.
template <class B, class F>
__device__ __forceinline__ void for_each_step(const State<B> &state, F f) {
  uint32_t n = 0;
#pragma unroll 1
  for (StreamCoord tile = {0, state.tiles.high - 1}; tile.tile >= state.tiles.low; tile.advance(state.group))
    f(n++, tile);
}

}  // namespace fa::kernels::backward_tcgen05
