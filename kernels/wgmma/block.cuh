// A block of threads, its shared memory, and who waits for whom in it:
//
//   producer warp                               consumer warpgroups, 64 rows of queries each
//   ─────────────                               ───────────────────────────────────────────
//   finds the block's works, one after another
//   Item, Q by TMA ──────── q_full ───────────> intervals of keys; reads Q until its last product with keys
//                 <──────── q_empty ─────────── (every warp; the Item's place is free one item later)
//   K of tile n - 1, V of tile n, ...
//      by TMA ────── k_full, v_full [stage] ──> S = Q K^T, O = O + P V
//             <───── k_empty, v_empty ───────── (a thread a warpgroup, once its products are over)
//
//   bar.sync: turns     one warpgroup after the other begins its products, and works on its softmax while the next
//                       ones' products run
//             everyone  values that threads have cleared may be read by all warpgroups
//             verdicts  all first runs are over, and it is known which works must be repeated (Item)
//
// All tiles are visited from the last to the first, as in mma.
#pragma once

#include <climits>

#include "common/lanes.cuh"
#include "common/schedule.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"
#include "wgmma/tiles.h"

namespace fa::kernels::wgmma {

template <Dtype Type, int Dim, Entry E>
struct Block {
  using Element = typename ElementOf<Type>::type;
  static constexpr Dtype dtype = Type;
  static constexpr Shape shape = wgmma::shape(Dim);
  static constexpr bool featured = E == Entry::featured;            // with a softcap
  static constexpr bool sloped = featured && Dim <= widest_sloped;  // and ALiBi
  static constexpr int dim = Dim;
  static constexpr int keys = shape.keys;
  static constexpr int stages = shape.stages;
  static constexpr int consumers = shape.consumers;
  static constexpr int rows = wgmma::rows(shape);
  static constexpr int threads = wgmma::threads(shape);

  using QueryTile = SharedTile<rows_of_warpgroup, dim>;
  using KeyTile = SharedTile<keys, dim>;
  using Queries = MatrixDescriptor<QueryTile>;
  using Keys = MatrixDescriptor<KeyTile>;

  /// Sums of a warp, and a number for each of their rows.
  using Scores = AccumulatorTile<1, keys / 8>;
  using Out = AccumulatorTile<1, dim / 8>;
  using Rows = typename Out::Rows;
};

/// Tiles of keys first .. end - 1 that a block visits; every row attends all keys of full_first .. full_end - 1.
struct TileRange {
  int first, end, full_first, full_end;
};

/// What a work is taken up for. Rows whose results NaN or Inf has reached, or whose scores are too large, are few:
/// their works are repeated when all others are done, from the start, as nothing but the work is remembered.
enum class Run : int32_t {
  first,
  again,   // the same without results: each lane finds what its rows need
  repair,  // with finite values and exact weights, for those rows
  pause,   // no work: a first run of all works is over
  end      // no work: everything is
};

/// A work, as the producer hands it to the consumers.
struct Item {
  Run run;
  int32_t number;  // among the block's works
  TileRange tiles;
  Work work;
};

/// What threads know of each other.
template <class B>
struct State {
  static constexpr int verdict_bits = 1024;

  uint64_t q_full, q_empty, k_full[B::stages], k_empty[B::stages], v_full[B::stages], v_empty[B::stages];
  Item items[2];                         // the next one's place is not the last one's, whose results are still written
  uint32_t verdicts[verdict_bits / 32];  // works that are to be repeated, or as many in a row as share a bit
};

template <class B>
struct SharedMemory {
  uint32_t queries, keys, values;  // addresses
  State<B> *state;

  static constexpr int of_queries = B::consumers * B::QueryTile::bytes, of_keys = B::stages * B::KeyTile::bytes;
  static_assert(of_queries + 2 * of_keys + int(sizeof(State<B>)) <= shared_bytes(B::shape, B::dim));

  __device__ explicit SharedMemory(char *memory)
      : queries(shared_address(memory)),
        keys(queries + of_queries),
        values(keys + of_keys),
        state(reinterpret_cast<State<B> *>(memory + of_queries + 2 * of_keys)) {}

  /// By one thread.
  __device__ void make_barriers() const {
    constexpr int warps = 4 * B::consumers;
    mbarrier_init(shared_address(&state->q_full), 1);
    mbarrier_init(shared_address(&state->q_empty), warps);
    for (int i = 0; i < B::stages; i++) {
      mbarrier_init(shared_address(&state->k_full[i]), 1);
      mbarrier_init(shared_address(&state->v_full[i]), 1);
      mbarrier_init(shared_address(&state->k_empty[i]), B::consumers);
      mbarrier_init(shared_address(&state->v_empty[i]), B::consumers);
    }
    fence_mbarrier_init();
  }
};

/// Named barriers; 0 is __syncthreads.
enum Barrier : int { everyone = 1, verdicts = 2, first_turn = 3 };

/// Which stage of a ring is next, and the parity of its phase.
template <int Stages>
struct Position {
  uint32_t stage = 0, parity = 0;

  __device__ void advance() {
    if (++stage == Stages) stage = 0, parity ^= 1;
  }
};

/// The keys of a split that a row attends.
__device__ inline Interval attended_of_split(const Params &p, const Work &w, Interval split, int32_t row) {
  const Interval keys = attended(p, w.sequence, row_at(p, w, row).query);
  const Interval both = {max(keys.low, split.low), min(keys.high, split.high)};
  return both.empty() ? Interval{0, 0} : both;
}

/// Works that share a bit of the verdicts: 1, unless there are very many.
template <class B>
__device__ inline int32_t works_a_bit(const Params &p) {
  const int64_t works = (p.schedule.blocks + gridDim.x - 1) / gridDim.x;
  return int32_t((works + State<B>::verdict_bits - 1) / State<B>::verdict_bits);
}

}  // namespace fa::kernels::wgmma
