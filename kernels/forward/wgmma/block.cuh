// A block of threads, its shared memory, and its barriers. Work tiles are visited from the last to the first.
//
// clang-format off
//   producer warp                                   consumer warpgroups, 64 rows of queries each (shares_rows: the same)
//   ─────────────                                   ────────────────────────────────────────────
//   finds the block's work tiles (next_index)
//   WorkItem, Q by TMA ───── q_full ──────────────> keys of each row; Q is read until its last product with keys
//                      <──── q_empty ─────────────  every warp; an item's slot is free one item later
//   K of block n - 1, V of block n, ...
//   by TMA ───────────────── k_full, v_full[stage] > S = Q K^T, O = O + P V
//          <──────────────── k_empty, v_empty ────  a thread a warpgroup, once its products are over
//
//   Named barriers (enum Barrier):
//   warp_scheduler_barrier + i   warpgroup i may issue its products, while the others compute their softmax
//   all_consumers                all warpgroups see the values that threads have cleared
//   fixup_bitmap                 the main pass is over, and the bitmap of work tiles to fix up is complete (WorkPass)
//   partners + i                 warps i of warpgroups that share their rows have left their messages (Partner)
// clang-format on
#pragma once

#include "collective/work_items.cuh"
#include "common/tma.cuh"
#include "common/wgmma.cuh"
#include "forward/wgmma/tiles.h"

namespace fa::kernels::wgmma {

template <Dtype Type, int Dim, Entry E>
struct Block {
  using Element = CudaType<Type>;
  static_assert(sizeof(Element) == 2);  // SharedTile
  static constexpr Dtype dtype = Type;
  static constexpr Shape shape = wgmma::shape(Dim, E);
  static constexpr bool score_mod = E == Entry::score_mod;           // with a softcap
  static constexpr bool sloped = score_mod && Dim <= max_alibi_dim;  // and ALiBi
  static constexpr int dim = Dim;
  static constexpr int dim_v = columns_of_values(Dim, E);
  static constexpr int keys = shape.keys;
  static constexpr int stages = shape.stages;
  static constexpr bool values_in_keys = shape.values_in_keys;
  static constexpr bool gathers_pages = producer_has_registers(Dim);  // pages that no boxes reach
  static constexpr int consumers = shape.consumers;
  static constexpr int row_groups = shape.shares_rows ? 1 : consumers;  // of 64 rows
  static constexpr int rows = wgmma::rows(shape);
  static constexpr int threads = wgmma::threads(shape);

  using QueryTile = SharedTile<rows_of_warpgroup, dim>;
  using OutTile = SharedTile<rows_of_warp, dim_v>;
  using KeyTile = SharedTile<keys, dim>;
  using ValueTile = SharedTile<keys, shape.values_in_keys ? dim : dim_v>;
  using Queries = MatrixDescriptor<QueryTile>;
  using Keys = MatrixDescriptor<KeyTile>;
  using Values = MatrixDescriptor<ValueTile>;

  /// The keys of a tile, and the columns of its values, that a warpgroup has sums of: all, or its part of them.
  static constexpr int parts = shape.shares_rows ? consumers : 1;
  static constexpr int own_keys = keys / parts, own_columns = dim_v / parts;
  static constexpr int message_bytes = wgmma::message_bytes(shape), messages_of_warp = wgmma::messages_of_warp(shape);

  /// The number of this thread's warpgroup among the consumers, and the first of its rows, keys and columns.
  __device__ static int group() { return uint32_t(shape.shares_rows ? mov_tid_x() : threadIdx.x) / 128 - 1; }
  __device__ static int row_group() { return row_groups == 1 ? 0 : group(); }
  __device__ static int first_key() { return parts == 1 ? 0 : group() * own_keys; }
  __device__ static int first_column() { return parts == 1 ? 0 : group() * own_columns; }

  /// Sums of a warp, and a number for each of their rows.
  using Scores = AccumulatorTile<1, own_keys / 8>;
  using Out = AccumulatorTile<1, own_columns / 8>;
  using Rows = typename Out::Rows;
};

/// The state that all roles share.
template <class B>
struct State {
  uint64_t q_full, q_empty, k_full[B::stages], k_empty[B::stages], v_full[B::stages], v_empty[B::stages];
  WorkItem items[2];         // the next one's slot is not the last one's, whose results are still written
  FixupBitmap fixup_bitmap;  // set by the warpgroups
  uint32_t work_indices[max_work_tiles + 1];  // by tickets: of the work tiles after the block's first, by the producer
};

template <class B>
struct SharedMemory {
  uint32_t queries, keys, values, out, messages;  // addresses
  State<B> *state;

  static constexpr int of_queries = B::row_groups * B::QueryTile::bytes, of_keys = B::stages * B::KeyTile::bytes;
  static constexpr int of_values = B::values_in_keys ? 0 : B::stages * B::ValueTile::bytes;
  static constexpr int of_out = boxes_of_out(B::dim) ? 4 * B::consumers * B::OutTile::bytes : 0;
  static constexpr int of_messages = 4 * B::consumers * B::messages_of_warp * B::message_bytes;
  static constexpr int of_tiles = of_queries + of_keys + of_values + of_out + of_messages;
  static_assert(of_tiles + int(sizeof(State<B>)) <= shared_bytes(B::shape, B::dim, B::dim_v));

  __device__ explicit SharedMemory(char *memory)
      : queries(shared_address(memory)),
        keys(queries + of_queries),
        values(B::values_in_keys ? keys : keys + of_keys),
        out(keys + of_keys + of_values),
        messages(out + of_out),
        state(reinterpret_cast<State<B> *>(memory + of_tiles)) {}

  /// Rows that no box brings, where packed heads do not fill a tile: products read them. By all threads.
  __device__ void clear_queries() const {
#pragma unroll 1
    for (int at = threadIdx.x * 16; at < of_queries; at += B::threads * 16) st_shared_v4_b32(queries + at, {});
    fence_proxy_async();
  }

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
enum Barrier : int { all_consumers = 1, fixup_bitmap = 2, warp_scheduler_barrier = 3, partners = 5 };

/// The rows of a work tile, fewer than a tile's where packed heads do not fill it; and those of a row group.
template <class B>
__device__ inline int32_t rows_of_work(const Params &p) {
  return producer_has_registers(B::dim) ? p.schedule.tile_rows : B::rows;
}
template <class B>
__device__ inline int32_t rows_of_group(const Params &p) {
  return rows_of_work<B>(p) / B::row_groups;
}

}  // namespace fa::kernels::wgmma
