// A block of threads, its memories and its barriers. t is one of two tiles of queries, which alternate. Beyond 128
// columns, other than in Entry::narrow, there is one tile of queries, with two tiles of scores in alternation, and no
// warps 4 - 7 (the roles behind them have lower numbers). Work tiles are visited from the last to the first.
//
// clang-format off
//   warp 13: loads       warp 12: products         warps 0 - 3, 4 - 7: softmax     warps 8 - 11: correction
//   ──────────────       ─────────────────         of tile 0, of tile 1            and results of both
//   WorkItem, Q ─q_full─> ......................... > ............................ > to all
//              <─q_empty─ once S is done with Q    .. ............................ .. an item's slot is free one later
//   K, V by TMA
//   ─ k_full, v_full ──> S[t] = Q[t] K^T ─ s_full[t] > S[t] to registers, a row
//   <─ k_empty, v_empty ─ (commits)                  a thread
//                                                  a ─────────── scales_full[t] ──> O[t] = O[t] a, where a row of
//                                                    <────────── scales_empty[t] ── the warp has an a below 1
//                        O[t] += P[t] V <─ p_full[t] ─ P[t] in place of S[t], but
//                                       <─ p_rest[t] ─ for its last keys; its last keys
//                                       <─ p_full[t] ────────────────────────────── O[t] may be added to
//                        ─ o_full[t] ─────────────────────────────────────────────> O[t] is complete
//                                                  l, m ─── final_stats_full[t] ──> O[t] / l to out
//                                                       <── final_stats_empty[t] ──
// clang-format on
//
// The order of products: S[0], S[1] of the first block of keys; then for each block O[0] += P[0] V, S[0] of the next
// one, O[1] += P[1] V, S[1] of the next one: the products of one tile run during the softmax of the other. Of a single
// tile of queries: S[i] of the next block, then O += P[1 - i] V. Products of a thread happen one after another, so S
// takes the place of a P that has been used with no further wait.
//
// p_full[t] of the first block: the results of the item before have been read from O[t]. The correction warps clear
// values before they arrive there: those behind the end of a sequence, and in the fix-up pass all that are not finite.
// They release values, too, as a commit says nothing of writes by other threads.
//
// Named barrier fixup_bitmap: the main pass is over, and the bitmap of work tiles to fix up is complete (WorkPass).
//
// Tensor memory: S[0] (P[0] in its first half), S[1] (P[1]), then O, of 128 lanes, which are rows.
#pragma once

#include "collective/work_items.cuh"
#include "common/cluster_launch.cuh"
#include "common/tcgen05.cuh"
#include "common/tma.cuh"
#include "forward/tcgen05/tiles.h"

namespace fa::kernels::tcgen05 {

template <Dtype Type, int Dim, Entry E>
struct Block {
  using Element = CudaType<Type>;
  static_assert(sizeof(Element) == 2);  // SharedTile
  static constexpr Dtype dtype = Type;
  static constexpr Shape shape = tcgen05::shape(FA_SM, Dim, E);
  static constexpr int dim = Dim, dim_v = columns_of_values(Dim, E);
  static constexpr int keys = shape.keys;
  static constexpr int stages = shape.stages;
  static constexpr bool gathers_pages = true;  // pages that no boxes reach
  static constexpr bool values_in_keys = false;
  static constexpr bool score_mod = E == Entry::score_mod;
  static constexpr int queries = shape.queries;
  // The first keys of a tile, whose weights are multiplied while those of the others are computed. A single tile of
  // queries has another tile of scores for that time, and registers do not suffice with features.
  static constexpr int early_keys = queries == 2 && !score_mod ? keys - 32 : keys;
  static constexpr bool has_rest = early_keys < keys;
  static constexpr int rows = tcgen05::rows(shape), threads = tcgen05::threads(shape);

  // Warps of the roles, the first or the only one.
  static constexpr int correction_warps = 4 * queries, product_warp = correction_warps + 4,
                       load_warp = product_warp + 1;

  using QueryTile = SharedTile<rows_of_tile, dim>;
  using KeyTile = SharedTile<keys, dim>;
  using ValueTile = SharedTile<keys, dim_v>;
  using Scores = TensorTile<keys>;
  using Weights = TensorOperand<keys>;
  using Out = TensorTile<dim_v>;
};

/// Tiles of scores, with as many of weights in the same columns.
constexpr int tiles_of_scores = 2;

/// The statistics of a row that a softmax warpgroup passes to the correction warps.
struct FinalStats {
  float neg_max, l;
};

/// The state that all roles share.
template <class B>
struct State {
  CancelResponse response;  // where a block takes its next work tile from
  uint64_t answered, q_full, q_empty, k_full[B::stages], k_empty[B::stages], v_full[B::stages], v_empty[B::stages];
  uint64_t s_full[tiles_of_scores], p_full[tiles_of_scores], p_rest[tiles_of_scores], o_full[B::queries];
  uint64_t scales_full[B::queries], scales_empty[B::queries], final_stats_full[B::queries],
      final_stats_empty[B::queries];
  uint32_t work_indices[max_work_tiles];   // of the work tiles after the block's first one
  uint32_t tensor_memory;                  // its address
  WorkItem items[2];                       // the next one's slot is not the last one's, whose results are still written
  FixupBitmap fixup_bitmap;                // set by the correction warps
  float scales[B::queries][rows_of_tile];  // a, of each row
  FinalStats final_stats[B::queries][rows_of_tile];
  uint32_t needs[B::queries][rows_of_tile];  // Fixup bits of each row, for the fix-up pass
};

template <class B>
struct SharedMemory {
  uint32_t queries, keys, values;  // addresses
  State<B> *state;

  static constexpr int of_queries = B::queries * B::QueryTile::bytes, of_keys = B::stages * B::KeyTile::bytes;
  static constexpr int of_values = B::stages * B::ValueTile::bytes;
  static_assert(of_queries + of_keys + of_values + int(sizeof(State<B>)) <= shared_bytes(B::shape, B::dim, B::dim_v));

  __device__ explicit SharedMemory(char *memory)
      : queries(shared_address(memory)),
        keys(queries + of_queries),
        values(keys + of_keys),
        state(reinterpret_cast<State<B> *>(memory + of_queries + of_keys + of_values)) {}

  /// Zeroes the tiles of queries: products also read rows that no box fills, where packed heads do not fill a tile. By
  /// all threads.
  __device__ void clear_queries() const {
#pragma unroll 1
    for (int at = threadIdx.x * 16; at < of_queries; at += B::threads * 16) st_shared_v4_b32(queries + at, {});
    fence_proxy_async();
  }

  /// By one thread. Warps arrive by one of their threads, products by a commit.
  __device__ void make_barriers() const {
    constexpr int products = 1, correction = 4, softmax = 4;
    mbarrier_init(shared_address(&state->answered), 1);
    mbarrier_init(shared_address(&state->q_full), 1);
    mbarrier_init(shared_address(&state->q_empty), 1 + products + correction + B::queries * softmax);
    for (int i = 0; i < B::stages; i++) {
      mbarrier_init(shared_address(&state->k_full[i]), 1);
      mbarrier_init(shared_address(&state->v_full[i]), 1);
      mbarrier_init(shared_address(&state->k_empty[i]), products);
      mbarrier_init(shared_address(&state->v_empty[i]), products + correction);
    }
    for (int i = 0; i < tiles_of_scores; i++) {
      mbarrier_init(shared_address(&state->s_full[i]), products);
      mbarrier_init(shared_address(&state->p_full[i]), softmax + correction);
      mbarrier_init(shared_address(&state->p_rest[i]), softmax);
    }
    for (int t = 0; t < B::queries; t++) {
      mbarrier_init(shared_address(&state->o_full[t]), products);
      mbarrier_init(shared_address(&state->scales_full[t]), softmax);
      mbarrier_init(shared_address(&state->scales_empty[t]), correction);
      mbarrier_init(shared_address(&state->final_stats_full[t]), softmax);
      mbarrier_init(shared_address(&state->final_stats_empty[t]), correction);
    }
    fence_mbarrier_init();
  }
};

/// Named barriers; 0 is __syncthreads.
enum Barrier : int { fixup_bitmap = 1 };

/// The layout of tensor memory. A block has all columns, so that the first is 0.
template <class B>
struct Columns {
  static constexpr int of_scores = tiles_of_scores * B::keys;
  static_assert(tensor_columns == 512 && of_scores + B::queries * B::dim_v <= tensor_columns);

  __device__ static typename B::Scores scores(int i) { return {uint32_t(i * B::keys)}; }
  __device__ static typename B::Weights weights(int i) { return {uint32_t(i * B::keys)}; }
  __device__ static typename B::Out out(int t) { return {uint32_t(of_scores + t * B::dim_v)}; }
};

/// The phases of a role's barriers, each of which has a number.
struct Phases {
  uint32_t parities = 0;

  /// Waits for the end of the next one.
  __device__ void wait(uint32_t barrier, int number) {
    mbarrier_wait(barrier, parities >> number & 1);
    parities ^= 1u << number;
  }
  __device__ void wait(uint64_t &barrier, int number) { wait(shared_address(&barrier), number); }
};

__device__ inline int lane() {
  return threadIdx.x % 32;
}

/// A warp-uniform value, forced into a register: the compiler cannot recompute it in each iteration.
template <class T>
__device__ inline T in_register_of_warp(T x) {
  return __shfl_sync(~0u, x, 0);
}

/// The same for a value of each lane.
template <class T>
__device__ inline T in_register_of_lane(T x) {
  return __shfl_sync(~0u, x, lane());
}

/// A warp's arrival, after all of its lanes' accesses.
__device__ inline void arrive_as_warp(uint32_t barrier) {
  __syncwarp();
  if (elect_sync()) mbarrier_arrive(barrier);
}
__device__ inline void arrive_as_warp(uint64_t &barrier) {
  arrive_as_warp(shared_address(&barrier));
}

/// The rows of a work tile that a tile of queries has: all, or fewer where packed heads do not fill it.
template <class B>
__device__ inline int32_t rows_of_box(const Params &p) {
  return p.schedule.tile_rows / B::queries;
}

/// The tiles of queries in which a work tile has rows.
template <class B>
__device__ inline int tiles_of(const Params &p, const WorkTile &w) {
  return B::queries == 2 && w.first_row + rows_of_box<B>(p) < w.rows ? 2 : 1;
}

/// The tile of scores of a tile of queries in an iteration: its own, or every other one.
template <class B>
__device__ inline int scores_of(int t, int iteration) {
  return B::queries == 2 ? t : iteration % 2;
}

/// The row of a thread of a warpgroup in tile t; past the work tile's rows where no box loads it.
template <class B>
__device__ inline int32_t row_of_thread(const Params &p, const WorkTile &w, int t) {
  const int32_t row = threadIdx.x % rows_of_tile, rows = rows_of_box<B>(p);
  return row < rows ? w.first_row + t * rows + row : w.rows;
}

/// The keys that it attends, none where there is no such row.
template <class B>
__device__ inline Interval keys_of_row(const Params &p, const WorkTile &w, int32_t row) {
  return row < w.rows ? attended_of_split(p, w, keys_of_split(p, w.sequence, w.split, B::keys), row) : Interval{0, 0};
}

/// Multiplier from accumulator units to scores.
template <class B>
__device__ inline float unit(const Params &p) {
  return B::score_mod ? score_scale(p) : p.scale;
}

/// True of rows whose weights must be exact: their scores are too large for others, or no weight is left, or a sum is
/// not finite.
__device__ inline bool needs_exact_weights(Interval keys, const FinalStats &x) {
  return !keys.empty() && (x.l == 0 || !is_finite(x.l) || fabsf(x.neg_max) >= exact_score_threshold);
}

/// The loop of a role over its work items, each of which it has to release: process(item) for work tiles, pause() where
/// the main pass over all of them is done.
template <class B, class Process, class Pause>
__device__ __forceinline__ void for_each_item(State<B> &state, Process &&process, Pause &&pause) {
#pragma unroll 1
  for (uint32_t items = 0;; items++) {
    mbarrier_wait(shared_address(&state.q_full), items % 2);
    const WorkItem &item = state.items[items % 2];
    const WorkPass pass = item.pass;
    if (pass == WorkPass::done) return;
    if (pass == WorkPass::drain)
      pause();
    else
      process(item);
  }
}

}  // namespace fa::kernels::tcgen05
