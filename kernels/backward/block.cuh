// A block of threads of the backward kernels. It owns rows, which stay in shared memory, and walks through others,
// which pass through a ring:
//
//   Entry::dkv   owns keys and values, walks through the group's queries and the gradients of their results
//
//   Entry::gradients   as Entry::dkv, and adds to dq (turns.cuh)
//
//   Entry::dq    owns queries and the gradients of their results, walks through keys and values
//
//   Both: warps in pairs, which own the same keys                  Entry::dq: each warp has queries of its own
//     value warp                       key warp                      S  = Q K^T          dP = dO V^T
//       S^T = K Q^T                      dP^T = V dO^T               P  = 2^(c S - lse)
//       P^T = 2^(c S^T - lse) ---P--->   dS^T = P^T (dP^T - delta)   dS = P (dP - delta)
//       dV += P^T dO                     dK += dS^T Q                dQ += dS K
//
// What a warp weighs is in its registers as A of the next product, so that no weight passes through shared memory but
// the one that a pair shares. A pair's warps have a sum each, which leaves room for two blocks of rows.
#pragma once

#include <bit>
#include <type_traits>

#include "backward/tiles.h"
#include "common/backward_schedule.cuh"
#include "common/register_tile.cuh"
#include "common/shared_tile.cuh"

namespace fa::kernels::backward {

template <int Sm, Dtype Type, int Dim, Entry E>
struct Block {
  using Element = typename ElementOf<Type>::type;
  static constexpr Arch arch = arch_of(Sm);
  static constexpr Shape shape = backward::shape(arch, Dim, E);
  static constexpr Dtype dtype = Type;
  static constexpr uint32_t exponents = Type == f16 ? 0x7c007c00 : 0x7f807f80;  // of two elements that are not finite
  static constexpr bool pairs = has_pairs(E);
  static constexpr bool sums_queries = E == Entry::gradients;  // beside keys and values
  static constexpr bool serves_scored = !sums_queries;
  static constexpr bool halves = Type == bf16;                       // weights and gradients of scores: see Factors
  static constexpr bool scales_shown = sums_queries && Type == f16;  // what key warps show, beside what they sum
  static constexpr bool staged = is_staged(arch, Dim, E);
  static constexpr int kept_blocks = backward::kept_blocks(arch, shape, Dim, E, Type);
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
  static_assert(!pairs || (terms_block % columns == 0 && rows < 256));  // AttendedKeys has bytes
  static_assert(!sums_queries || (stages == 2 && columns % turn_rows == 0));

  using OwnTile = SharedTile<rows, dim>;
  using WalkedTile = SharedTile<columns, dim>;
  static constexpr int slot_bytes = 2 * WalkedTile::bytes;

  using Scores = AccumulatorTile<row_blocks, columns / 8>;
  using Sums = AccumulatorTile<row_blocks, dim / 8>;
  using Rows = typename Sums::Rows;

  /// The slot of step number n.
  __device__ static int stage(int n) { return stages == 2 ? n & 1 : 0; }

  /// This thread's number, read anew each time, so that what follows from it takes no registers before it is used; and
  /// known to be no larger than it can be, which leaves fewer bits of it to look at.
  __device__ static int thread() { return mov_tid_x() & (static_cast<int>(std::bit_ceil(unsigned(threads))) - 1); }

  /// Which rows a warp has, and whether it is the key warp of a pair.
  __device__ static int team(int warp) { return warp % teams; }
  __device__ static bool of_keys(int warp) { return warp >= teams; }

  /// Which of the block's rows a lane's row r is.
  __device__ static int row_of(int thread, int r) {
    return team(thread / 32) * warp_rows + r * 8 + Sums::first_row(thread % 32);
  }
};

/// What stands beside the scores of a walked tile of queries, with pairs.
template <class B>
struct Terms {
  alignas(8) float minus_lse2[B::columns];
  alignas(8) float minus_delta[B::columns];
};

/// The keys of a block that a query attends, counted from its first one; and what it is multiplied by where it is
/// shown, a power of two as the upper half of a float.
struct alignas(4) AttendedKeys {
  uint8_t low, high;
  uint16_t factor_bits;

  __device__ bool holds(int key) const { return low <= key && key < high; }
  /// Of the four bytes of one.
  template <bool Inverse>
  __device__ static float factor_of(int bytes) {
    const int bits = bytes & 0xffff0000;
    return __int_as_float(Inverse ? (2 * 127 << 23) - bits : bits);
  }
};

/// A tile of queries of a head of the group. They come from the last tile to the first, each of all heads: blocks that
/// take turns then never wait for one that has more of them.
struct Place {
  int head, tile;
};

/// A step of a block that owns keys, as one thread finds it for all: two steps before, since what it takes to find is
/// as much as a warp's part of a small tile.
struct Step {
  Place at;
  int32_t left;         // queries from the tile's first one on; 0: there is no such step
  int32_t whole;        // all its queries attend all keys
  const char *rows[2];  // of Q and dO, from the tile's first one on
  const RowTerms *terms;
  const RowFactors *factors;  // of the tile's terms, where there are any
};

/// Of Entry::gradients: where the terms of dq go, and after which block. Counters are null where order does not matter.
struct Turns {
  float *sums;             // of dq, of row 0 of the group's first head
  int32_t *counter;        // of the same rows
  int32_t turn;            // of this block: its tile's number
  Interval before;         // tiles of queries that the block before adds to
  float *to;               // sums of the tile of which dS is shown; null: none
  int32_t *begun, *ended;  // counters of that tile and of the one before it
  int32_t waits, odd;      // that tile: another block comes first; keys may hold what is not finite, and not all attend
};

/// What stays in shared memory beside tiles, so that it takes no registers in the loop.
template <class B>
struct BlockState {
  std::conditional_t<B::pairs, Sequence, char> sequence;
  std::conditional_t<B::pairs, KeyWork, Work> work;
  Interval full;   // with pairs: the queries that attend all keys; Entry::dq: the tiles of keys that all queries attend
  Interval tiles;  // that the block visits: of queries of each head, or of keys
  const RowTerms *row_terms;  // of query 0: of the head, or of the group's first one
  const char *walked[2];      // where row 0 is: of Q and dO of the group's first head, or of K and V
  int group;                  // with pairs: heads of queries that have the keys
  std::conditional_t<B::pairs, Step, char> steps[4];      // with pairs: number n is at n & 3
  std::conditional_t<B::pairs, Terms<B>, char> terms[2];  // of the queries of this step and of the next one
  // By each query; with pairs: of a masked step, and two are read at once.
  alignas(8) std::conditional_t<B::pairs, AttendedKeys, Interval> attended[B::pairs ? B::columns : B::rows];
  std::conditional_t<B::sums_queries, Turns, char> turns;
  std::conditional_t<B::scales_shown, float, char> largest_factor[2];  // of this step's queries and the next one's
  // Of each key warp's rows, in a step. At the end, as the compiler loads four where there are three.
  std::conditional_t<B::scales_shown, float, char> factors_of_shown[B::teams];
};

/// Owned tiles, the ring, and what pairs exchange.
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
    return begin + ring + stage * B::slot_bytes + which * B::WalkedTile::bytes;
  }

  __device__ uint32_t exchange() const { return begin + tiles; }
};

}  // namespace fa::kernels::backward
