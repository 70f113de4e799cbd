// A block that owns keys and values, and streams the queries of all heads that read them, from the last tile to the
// first (StreamCoord).
//
// clang-format off
//   producer warp                              consumer warpgroups, 64 keys each
//   ─────────────                              ─────────────────────────────────
//   K, V by TMA ────────── kv_full ──────────> S^T  = K Q^T
//   Q and RowStats ─────── q_full[stage] ────> P^T  = 2^(c S^T - lse)
//   dO ─────────────────── do_full[stage] ───> dP^T = V dO^T,  dV += P^T dO
//                                              dS^T = P^T (dP^T - delta), in shared memory too,  dK += dS^T Q
//           <───────────── empty[stage] ─────  dQ of the step before = dS K, once ds_full says that both have stored it
//   dQ warp
//   ───────
//   acquires dq_semaphore       <─── dq_full ── parts of dQ in shared memory, every warp
//   adds dQ by TMA, releases
//   dq_semaphore ────────────────── dq_empty >
// clang-format on
#pragma once

#include "backward/wgmma/factors.cuh"
#include "collective/gradient_score_mod.cuh"
#include "collective/key_block.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"

namespace fa::kernels::backward_wgmma {

template <Dtype Type, int Dim>
struct Block {
  using Element = CudaType<Type>;
  static_assert(sizeof(Element) == 2);  // SharedTile
  static constexpr Dtype dtype = Type;
  static constexpr Shape shape = shape_of(Dim);
  static constexpr uint32_t exponents = infinities<Type>;  // of two elements that are not finite
  static constexpr bool halves = kernels::Element<Type>::halves_gradients;
  static constexpr bool scales = kernels::Element<Type>::scales_gradients;
  static constexpr int dim = Dim;
  static constexpr int rows = keys;  // that the block owns
  static constexpr int columns = shape.columns, stages = shape.stages;
  static constexpr int threads = backward_wgmma::threads;

  using OwnTile = SharedTile<rows, dim>;
  using StreamedTile = SharedTile<columns, dim>;
  using DsTile = SharedTile<rows, columns>;
  using Own = MatrixDescriptor<OwnTile>;
  using Streamed = MatrixDescriptor<StreamedTile>;
  using Ds = MatrixDescriptor<DsTile>;

  using Scores = AccumulatorTile<1, columns / 8>;
  using Sums = AccumulatorTile<1, dim / 8>;
  using Rows = typename Sums::Rows;

  /// A warpgroup's part of a tile of dQ, 64 queries by 64 columns: other queries or columns than the other warpgroup's,
  /// or some of the same columns, of which either hands over half.
  using DqPart = AccumulatorTile<1, 8>;  // chunks of its warps (collective/dq_chunk.cuh)
  static constexpr int dq_queries = columns - 64, dq_columns = dim - 64;  // from one part to the other
  static constexpr int dq_twice = dim > 64 ? 64 - dq_columns : 0;         // columns that both have
  static_assert((dq_queries == 64 && dq_columns == 0) || (dq_queries == 0 && dq_columns % OwnTile::panel_columns == 0));
  static constexpr int dq_bytes = columns * dim * 4;

  /// Which of the block's keys a lane's row r is.
  __device__ static int row_of(uint32_t thread, int r) {
    return (thread - 128) / 32 * 16 + r * 8 + Sums::first_row(thread % 32);
  }
};

/// The keys of a block that a query attends, counted from the block's first one.
struct KeyRange {
  uint16_t low, high;

  __device__ bool holds(int key) const { return low <= key && key < high; }
};

/// Powers of two by which dS is multiplied for dQ: those of its rows (RowScales), of each stage, and one of each warp,
/// of even steps and of odd ones.
template <class B, bool Scales = B::scales>
struct DsScales {};
template <class B>
struct DsScales<B, true> {
  alignas(16) float of_rows[B::stages][B::columns];
  alignas(16) float of_warps[2][4 * consumers];
  Factors<B> factors[2][128 * consumers];  // of each thread's rows of dK, and of dV: registers are few
};

/// The state that all roles share.
template <class B>
struct State : KeyBlock {
  RowStats stats[B::stages][B::columns];
  KeyRange attended[consumers][B::columns];  // of a careful step, by either warpgroup
  Interval queries[keys];                    // that attend each of the block's keys
  uint64_t kv_full, q_full[B::stages], do_full[B::stages], empty[B::stages], ds_full[2], dq_full, dq_empty;
  int64_t ticket;
  float2 softcap;  // Softcap::constants
  [[no_unique_address]] DsScales<B> ds_scales;
};

template <class B>
struct SharedMemory {
  uint32_t begin;
  State<B> *state;

  static constexpr int ring = 2 * B::OwnTile::bytes, ds_tiles = ring + B::stages * 2 * B::StreamedTile::bytes;
  static constexpr int dq_tile = ds_tiles + 2 * B::DsTile::bytes, of_tiles = dq_tile + B::dq_bytes;
  static_assert(of_tiles + int(sizeof(State<B>)) <= shared_bytes(B::shape, B::dim));

  __device__ explicit SharedMemory(char *memory)
      : begin(shared_address(memory)), state(reinterpret_cast<State<B> *>(memory + of_tiles)) {}

  /// K and V.
  __device__ uint32_t own(int which) const { return begin + which * B::OwnTile::bytes; }

  /// A stage's tiles: Q and dO.
  __device__ uint32_t slot(int stage, int which) const {
    return begin + ring + (2 * stage + which) * B::StreamedTile::bytes;
  }

  /// dS of even steps, and of odd ones.
  __device__ uint32_t ds(int which) const { return begin + ds_tiles + which * B::DsTile::bytes; }

  /// A tile of dQ, in the order of the sums in global memory.
  __device__ uint32_t dq() const { return begin + dq_tile; }

  /// By one thread.
  __device__ void make_barriers() const {
    constexpr int warps = 4 * consumers;
    mbarrier_init(shared_address(&state->kv_full), 1);
    for (int i = 0; i < B::stages; i++) {
      mbarrier_init(shared_address(&state->q_full[i]), 1);
      mbarrier_init(shared_address(&state->do_full[i]), 1);
      mbarrier_init(shared_address(&state->empty[i]), warps);
    }
    for (uint64_t &of_step : state->ds_full) mbarrier_init(shared_address(&of_step), warps);
    mbarrier_init(shared_address(&state->dq_full), warps);
    mbarrier_init(shared_address(&state->dq_empty), 1);
    fence_mbarrier_init();
  }
};

/// Named barriers; 0 is __syncthreads.
enum Barrier : int { all_consumers = 1, warpgroup = 2 };

}  // namespace fa::kernels::backward_wgmma
