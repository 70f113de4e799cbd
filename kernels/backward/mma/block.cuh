// A block of the backward kernels. It owns rows, which stay in shared memory, and streams others through a pipeline:
//
//   Entry::dkv   owns keys and values, streams the group's queries and the gradients of their results
//
//   Entry::bwd_fused   as Entry::dkv, and adds to dq (dq_accumulate.cuh)
//
//   Entry::dq    owns queries and the gradients of their results, streams keys and values
//
//   Both: warps in pairs, which own the same keys                  Entry::dq: each warp owns queries
//     value warp                       key warp                      S  = Q K^T          dP = dO V^T
//       S^T = K Q^T                      dP^T = V dO^T               P  = 2^(c S - lse)
//       P^T = 2^(c S^T - lse) ---P--->   dS^T = P^T (dP^T - delta)   dS = P (dP - delta)
//       dV += P^T dO                     dK += dS^T Q                dQ += dS K
//
// A warp's P or dS is in its registers as operand A of the next product. Only the weights that a pair shares pass
// through shared memory. A pair's warps have a sum each, which leaves room for two blocks of rows.
#pragma once

#include <bit>
#include <type_traits>

#include "backward/mma/tiles.h"
#include "collective/query_stream.cuh"
#include "common/register_tile.cuh"
#include "common/shared_tile.cuh"

namespace fa::kernels::backward_mma {

template <int Sm, Dtype Type, int Dim, Entry E>
struct Block {
  using Element = CudaType<Type>;
  static_assert(sizeof(Element) == 2);  // SharedTile
  static constexpr Arch arch = arch_of(Sm);
  static constexpr Shape shape = backward_mma::shape(arch, Dim, E);
  static constexpr Dtype dtype = Type;
  static constexpr uint32_t exponents = infinities<Type>;  // of two elements that are not finite
  static constexpr bool pairs = has_pairs(E);
  static constexpr bool sums_queries = E == Entry::bwd_fused;  // in addition to keys and values
  static constexpr bool supports_score_mod = !sums_queries;
  static constexpr bool halves = kernels::Element<Type>::halves_gradients;                     // see GradScale
  static constexpr bool scales_ds = sums_queries && kernels::Element<Type>::scales_gradients;  // in shared memory
  static constexpr bool staged = is_staged(arch, Dim, E);
  static constexpr int kept_blocks =
      backward_mma::kept_blocks(arch, shape, Dim, E, kernels::Element<Type>::scales_gradients);
  static constexpr int dim = Dim;
  static constexpr int threads = 32 * shape.warps;
  static constexpr int warps = shape.warps;
  static constexpr int row_blocks = shape.row_blocks;
  static constexpr int warp_rows = 16 * row_blocks;
  static constexpr int teams = pairs ? shape.warps / 2 : shape.warps;  // of warps with the same rows
  static constexpr int rows = teams * warp_rows;                       // that the block owns
  static constexpr int columns = shape.columns;                        // of a step
  static constexpr int stages = shape.stages;
  static constexpr bool fetches_ahead = stages == 2 || staged;
  static_assert(fetches_ahead || (!pairs && !arch.has(cp_async)));
  static_assert(!pairs || (stats_block % columns == 0 && rows < 256));  // KeyRange has bytes
  static_assert(!sums_queries || (stages == 2 && columns % dq_semaphore_rows == 0));

  using OwnTile = SharedTile<rows, dim>;
  using StreamedTile = SharedTile<columns, dim>;
  static constexpr int slot_bytes = 2 * StreamedTile::bytes;

  using Scores = AccumulatorTile<row_blocks, columns / 8>;
  using Sums = AccumulatorTile<row_blocks, dim / 8>;
  using Rows = typename Sums::Rows;

  /// The slot of step number n.
  __device__ static int stage(int n) { return stages == 2 ? n & 1 : 0; }

  /// threadIdx.x, read again at each use, to save registers, and masked, so that the compiler knows its range.
  __device__ static int thread() { return mov_tid_x() & (static_cast<int>(std::bit_ceil(unsigned(threads))) - 1); }

  /// Which rows a warp has, and whether it is the key warp of a pair.
  __device__ static int team(int warp) { return warp % teams; }
  __device__ static bool of_keys(int warp) { return warp >= teams; }

  /// Which of the block's rows a lane's row r is.
  __device__ static int row_of(int thread, int r) {
    return team(thread / 32) * warp_rows + r * 8 + Sums::first_row(thread % 32);
  }
};

/// The row statistics of the current query tile, in shared memory; with pairs.
template <class B>
struct SmemRowStats {
  alignas(8) float neg_lse_log2[B::columns];
  alignas(8) float neg_dpsum[B::columns];
};

/// The keys of a block that a query attends, counted from the block's first one; and the scale of the query's dS in
/// shared memory, a power of two: the upper 16 bits of a float.
struct alignas(4) KeyRange {
  uint8_t low, high;
  uint16_t factor_bits;

  __device__ bool holds(int key) const { return low <= key && key < high; }
  /// The factor in the four bytes of a KeyRange.
  template <bool Inverse>
  __device__ static float factor_of(int bytes) {
    const int bits = bytes & 0xffff0000;
    return __int_as_float(Inverse ? (2 * 127 << 23) - bits : bits);
  }
};

/// A step of a block that owns keys. One thread computes it for all, two steps ahead, since that costs as many
/// instructions as a warp's part of a small tile.
struct Step {
  StreamCoord at;
  int32_t left;         // queries from the tile's first one on; 0: there is no such step
  int32_t whole;        // all its queries attend all keys
  const char *rows[2];  // of Q and dO, from the tile's first one on
  const RowStats *terms;
  const RowScales *factors;  // of the tile's terms, where there are any
};

/// The state of Entry::bwd_fused for adding to dq: the destination, and the semaphore that orders the blocks (null
/// where order does not matter).
struct DqSemaphore {
  float *sums;             // of dq, of row 0 of the group's first head
  int32_t *counter;        // of the same rows
  int32_t key_tile;        // of this block, the value of the counter that it waits for
  Interval before;         // tiles of queries that the block before adds to
  float *to;               // dq of the tile whose dS is in shared memory; null: none
  int32_t *begun, *ended;  // counters of that tile and of the one before it
  int32_t waits, odd;      // whether another block adds to that tile first; whether it needed `repair`
};

/// State in shared memory in addition to tiles, to save registers in the loop.
template <class B>
struct BlockState {
  std::conditional_t<B::pairs, Sequence, char> sequence;
  std::conditional_t<B::pairs, KeyWorkTile, WorkTile> work;
  Interval full;   // with pairs: the queries that attend all keys; Entry::dq: the tiles of keys that all queries attend
  Interval tiles;  // that the block visits: of queries of each head, or of keys
  const RowStats *row_terms;  // of query 0: of the head, or of the group's first one
  const char *streamed[2];    // where row 0 is: of Q and dO of the group's first head, or of K and V
  int group;                  // with pairs: heads of queries that have the keys
  std::conditional_t<B::pairs, Step, char> steps[4];             // with pairs: number n is at n & 3
  std::conditional_t<B::pairs, SmemRowStats<B>, char> terms[2];  // of the queries of this step and of the next one
  // The keys that each query attends; with pairs: of a masked step, two read at once.
  alignas(8) std::conditional_t<B::pairs, KeyRange, Interval> attended[B::pairs ? B::columns : B::rows];
  std::conditional_t<B::sums_queries, DqSemaphore, char> dq_semaphore;
  std::conditional_t<B::sums_queries, int64_t, char> ticket;
  std::conditional_t<B::scales_ds, float, char> largest_factor[2];  // of this step's queries and the next one's
  // The scale of each key warp's dS in a step. The last member, as the compiler loads four where there are three.
  std::conditional_t<B::scales_ds, float, char> ds_scales[B::teams];
};

/// Owned tiles, the pipeline, and the exchange of pairs.
template <class B>
struct SharedMemory {
  uint32_t begin;
  BlockState<B> *state;

  static constexpr int ring = 2 * B::OwnTile::bytes, tiles = ring + B::stages * B::slot_bytes;

  __device__ explicit SharedMemory(char *memory) {
    static_assert(shared_bytes(B::shape, B::dim, B::pairs) >=
                  tiles + exchange_bytes(B::shape, B::pairs) + int(sizeof(BlockState<B>)));
    begin = shared_address(memory);
    state = reinterpret_cast<BlockState<B> *>(memory + tiles + exchange_bytes(B::shape, B::pairs));
  }

  /// K and V, or Q and dO.
  __device__ uint32_t own(int which) const { return begin + which * B::OwnTile::bytes; }

  /// A slot's tiles: Q and dO, or K and V.
  __device__ uint32_t slot(int stage, int which) const {
    return begin + ring + stage * B::slot_bytes + which * B::StreamedTile::bytes;
  }

  __device__ uint32_t exchange() const { return begin + tiles; }
};

}  // namespace fa::kernels::backward_mma
