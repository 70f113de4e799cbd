// Attention of a tile of queries over tiles of keys and values that pass through a ring in shared memory:
//   S = Q K^T;  m' = max(m, rowmax S);  P = 2^(c (S - m'));  l = l a + rowsum P;  O = O a + P V
#pragma once

#include "mma/join.cuh"
#include "mma/load.cuh"
#include "mma/products.cuh"
#include "mma/store.cuh"

namespace fa::kernels::mma {

/// Keys and values of tiles from the last to the first, as items K, V, K, V, ... of a ring of `stages` places. Each
/// item is asked for stages - 1 items ahead.
template <class B>
class Ring {
 public:
  __device__ Ring(const Params &p, const SharedMemory<B> &shared, const Tiles &tiles)
      : keys_(p, p.k, p.head_dim, shared.kept->work, tiles.end - 1),
        values_(p, p.v, p.head_dim_v, shared.kept->work, tiles.end - 1),
        begin_(shared.ring),
        at_(shared.ring + (B::stages - 1) * B::KeyTile::bytes) {
#pragma unroll
    for (int item = 0; item < B::stages - 1; item++)
      ask<true>(item, begin_ + item * B::KeyTile::bytes, tiles.end - 1, *shared.kept);
  }

  /// Waits for the next item, which is tile `tile`'s keys or values, asks for a later one, and returns the address.
  template <bool Bounded>
  __device__ uint32_t next_keys(int tile, const Kept<B> &kept) {
    return next<Bounded>(B::stages - 1, tile, kept);
  }
  template <bool Bounded>
  __device__ uint32_t next_values(int tile, const Kept<B> &kept) {
    return next<Bounded>(B::stages, tile, kept);
  }

 private:
  template <bool Bounded>
  __device__ uint32_t next(int ahead, int tile, const Kept<B> &kept) {
    const uint32_t free = at_;
    at_ = at_ == begin_ + (B::stages - 1) * B::KeyTile::bytes ? begin_ : at_ + B::KeyTile::bytes;
    if constexpr (B::staged)
      if (ahead == B::stages ? values_.staged() : keys_.staged()) chunks_.deliver(at_);
    cp_async_wait_group<B::stages - 2>();
    __syncthreads();  // everyone's copies have arrived, and everyone has left the item before
    ask<Bounded>(ahead, free, tile, kept);
    return at_;
  }

  /// Asks for the item that comes `ahead` items after tile `tile`'s keys.
  template <bool Bounded>
  __device__ void ask(int ahead, uint32_t to, int tile, const Kept<B> &kept) {
    tile -= ahead / 2;
    const int keys = Bounded ? kept.work.sequence.keys - tile * B::keys : B::keys;
    auto &rows = ahead % 2 == 0 ? keys_ : values_;
    rows.template copy<Bounded>(to, tile >= kept.tiles.first, keys, kept.work, chunks_);
    cp_async_commit_group();
  }

  std::conditional_t<B::plain, EvenRows<B>, AnyRows<B>> keys_, values_;
  typename EvenRows<B>::Chunks chunks_;
  uint32_t begin_, at_;  // at_: the item in use
};

/// A block's pass over its tiles. `again`: a second one, in which values that are not finite count as 0, and weights of
/// rows that need it are exact.
template <class B>
struct Pass {
  const Params &p;
  const SharedMemory<B> &shared;
  Queries<B> queries;
  Ring<B> ring;
  OnlineSoftmax<B> state;
  typename B::Out out;

  __device__ Pass(const Params &params, const SharedMemory<B> &memory)
      : p(params), shared(memory), queries(memory.queries), ring(params, memory, memory.kept->tiles) {
    out.clear();
  }

  /// True when this warp has rows at all.
  __device__ bool busy() const {
    return B::plain || shared.kept->work.first_row + B::first_row(threadIdx.x / 32) < shared.kept->work.rows;
  }

  template <bool Masked>
  __device__ void step(int tile) {
    const Kept<B> &kept = *shared.kept;
    typename B::Scores s;
    const uint32_t keys = ring.template next_keys<Masked>(tile, kept);
    if (busy()) {
      multiply_keys<B>(s, queries, keys);
      if constexpr (!B::plain) {
        finish_scores<B>(p, s, tile * B::keys + B::first_key(threadIdx.x / 32), kept);
      } else if constexpr (Masked) {
        mask_intervals<B>(s, tile * B::keys, kept);
      }
      weigh<Masked>(s, kept);
    }
    const uint32_t values = ring.template next_values<Masked>(tile, kept);
    if (Masked && kept.again) {
      clear_nonfinite(values, B::KeyTile::bytes, B::dtype == f16 ? 0x7c007c00 : 0x7f807f80);
      __syncthreads();
    }
    if (busy()) multiply_values<B>(out, s, values);
  }

  /// Scores become weights. Those of plain scores are exact in a second run alone, where the first has shown the need.
  template <bool Masked>
  __device__ void weigh(typename B::Scores &s, const Kept<B> &kept) {
    if constexpr (!B::plain) {
      update<B>(state, out, s, log2_e, [](int) { return true; });
    } else if (Masked && kept.again) {
      bool exact[B::Rows::rows];
      unroll<B::Rows::rows>([&](int r) { exact[r] = kept.redo[row_of_tile<B>(threadIdx.x, r)] & far_off; });
      update<B>(state, out, s, p.scale * log2_e, [&](int r) { return exact[r]; });
    } else {
      update<B>(state, out, s, p.scale * log2_e, [](int) { return false; });
    }
  }

  __device__ void run() {
    if constexpr (B::shape.q_in_registers) {
      cp_async_wait_group<B::stages - 1>();
      __syncthreads();
      queries.load();
    }
    const int first = shared.kept->tiles.first;
    int tile = shared.kept->tiles.end - 1;
    while (tile >= first) {
#pragma unroll 1
      for (; tile >= first && (!B::plain || shared.kept->again || !shared.kept->tiles.full(tile)); tile--)
        step<true>(tile);
      if constexpr (B::plain) {
        const int last = max(first, shared.kept->tiles.full_first);
#pragma unroll 1
        for (; tile >= last; tile--) step<false>(tile);
      }
    }
  }
};

template <class B>
__device__ inline void forward(const Params &p) {
  if constexpr (B::splits) griddepcontrol_launch_dependents();
  extern __shared__ __align__(128) char memory[];
  const SharedMemory<B> shared(memory);
  {
    const Work w = work_of_block(p, B::rows);
    if (w.rows == 0) return;
    const Interval split = B::splits ? keys_of_split(p, w.sequence, w.split, B::keys) : Interval{0, w.sequence.keys};
    const Tiles tiles = find_tiles<B>(p, w, split, shared.kept);
    // Gaps between fields too: neighbouring ones are read together.
    static_assert(sizeof(Work) <= 32 * sizeof(int));
    if (threadIdx.x < sizeof(Work) / sizeof(int)) reinterpret_cast<volatile int *>(&shared.kept->work)[threadIdx.x] = 0;
    __syncwarp();
    if (threadIdx.x == 0) shared.kept->work = w, shared.kept->tiles = tiles, shared.kept->again = false;
  }
  __syncthreads();
#pragma unroll 1
  for (;;) {
    load_queries<B>(p, shared.kept->work, shared.queries);
    cp_async_commit_group();
    Pass<B> pass(p, shared);
    pass.run();
    cp_async_wait_group<0>();
    __syncthreads();  // the tiles are free
    bool again = false;
    if constexpr (B::same_rows) join_warps<B>(pass.state, pass.out, shared.ring);
    if (!B::same_rows || threadIdx.x < 32)
      again = store<B>(p, shared.kept, pass.out, pass.state, shared.queries, shared.kept->again);
    if (shared.kept->again || !__syncthreads_or(again)) return;
    if (threadIdx.x == 0) shared.kept->again = true;
    __syncthreads();
  }
}

}  // namespace fa::kernels::mma
