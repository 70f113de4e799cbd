// The warpgroup that keeps sums in the scale of their weights, off the softmax's way, clears values that must not
// count, and writes results. A thread has a row of each tile of queries.
#pragma once

#include "collective/output.cuh"
#include "forward/tcgen05/store.cuh"

namespace fa::kernels::tcgen05 {

template <class B>
class Correction {
  // It arrives for a tile's values when it knows that those of the tile before the last one are released: an arrival
  // for the same stage sooner would count in the phase that is still to end.
  static_assert(B::stages >= 2);

 public:
  __device__ Correction(const Params &p, const SharedMemory<B> &shared)
      : p_(p), state_(*shared.state), values_(shared.values) {}

  __device__ void run() {
    const auto release = [&] { arrive_as_warp(state_.q_empty); };
    for_each_item(
        state_,
        [&](const WorkItem &item) {
          release();
          correct(item);
          finish(item);
        },
        [&] {
          release();
          bar_sync(fixup_bitmap, 32 + 128);
        });
  }

 private:
  enum Phase { scales, final_stats = scales + B::queries, sums = final_stats + B::queries };

  __device__ void correct(const WorkItem &item) {
    const int iterations = iterations_of(item), count = tiles_of<B>(p_, item.work);
#pragma unroll 1
    for (int iteration = 0; iteration < iterations; iteration++) {
      if (item.pass == WorkPass::fixup) {
        clear_nonfinite(wait_for_values(), B::ValueTile::bytes, infinities<B::dtype>, threadIdx.x % 128, 128);
        fence_proxy_async();
      } else if (iteration == 0) {
        clear_values(item.work.sequence.keys - (item.tiles.end - 1) * B::keys);
      }
#pragma unroll 1
      for (int t = 0; t < count; t++) {
        if (iteration > 0) scale(t);
        tcgen05_fence_before_thread_sync();
        arrive_as_warp(state_.p_full[scores_of<B>(t, iteration)]);
      }
      arrive_as_warp(state_.v_empty[at_values_.stage]);
      at_values_.advance();
    }
  }

  /// O = O a, where it is not 1.
  __device__ __forceinline__ void scale(int t) {
    phases_.wait(state_.scales_full[t], scales + t);
    const float a = state_.scales[t][threadIdx.x % rows_of_tile];
    arrive_as_warp(state_.scales_empty[t]);
    phases_.wait(state_.o_full[t], sums + t);
    if (!__any_sync(~0u, a != 1)) return;
    tcgen05_fence_after_thread_sync();
    const typename B::Out out = Columns<B>::out(t);
#pragma unroll 1
    for (int column = 0; column < B::dim_v; column += 32) {
      uint32_t o[32];
      tcgen05_ld_32x32b_x32(o, out.of_warp(column));
      tcgen05_wait_ld(o);
      unroll<32>([&](int i) { o[i] = __float_as_uint(__uint_as_float(o[i]) * a); });
      unroll<2>([&](int i) { tcgen05_st_32x32b_x16(out.of_warp(column + 16 * i), o + 16 * i); });
    }
    tcgen05_wait_st();
  }

  /// Results of an item, once its products are over.
  __device__ void finish(const WorkItem &item) {
    const bool any_keys = iterations_of(item) > 0;
#pragma unroll 1
    for (int t = 0; t < tiles_of<B>(p_, item.work); t++) {
      phases_.wait(state_.final_stats_full[t], final_stats + t);
      const FinalStats final = state_.final_stats[t][threadIdx.x % rows_of_tile];
      arrive_as_warp(state_.final_stats_empty[t]);
      if (any_keys) {
        phases_.wait(state_.o_full[t], sums + t);
        tcgen05_fence_after_thread_sync();
      }
      const uint32_t needed = item.pass == WorkPass::fixup ? known(t) : 0;
      const uint32_t needs = store<B>(p_, item, t, any_keys, Columns<B>::out(t), final, needed);
      known(t) = needs;
      if (__any_sync(~0u, needs != 0) && item.pass == WorkPass::main && lane() == 0)
        state_.fixup_bitmap.set(p_, item.number);
    }
  }

  /// Read again where it is needed: registers are few.
  __device__ static int iterations_of(const WorkItem &item) {
    const int2 tiles = ld_volatile_shared_v2_s32(shared_address(&item.tiles));
    return tiles.y - tiles.x;
  }

  /// The Fixup bits of this thread's row of a tile.
  __device__ uint32_t &known(int t) const {
    return state_.needs[t][mov_tid_x() % rows_of_tile];
  }

  __device__ uint32_t wait_for_values() const {
    mbarrier_wait(shared_address(state_.v_full + at_values_.stage), at_values_.parity);
    return values_ + at_values_.stage * B::ValueTile::bytes;
  }

  /// Clears the values of the first tile that lie behind the sequence's end: the sequence has `keys` of the tile's
  /// rows. The others have the weight 0, but may be another sequence's, or unused memory, and not finite.
  __device__ void clear_values(int keys) const {
    if (keys >= B::keys) return;
    const uint32_t values = wait_for_values();
    constexpr int chunks = B::dim_v / 8;
#pragma unroll 1
    for (int i = keys * chunks + threadIdx.x % 128; i < B::keys * chunks; i += 128)
      st_shared_v4_b32(values + B::ValueTile::offset(i / chunks, i % chunks), {});
    fence_proxy_async();
  }

  const Params &p_;
  State<B> &state_;
  uint32_t values_;
  PipelineState<B::stages> at_values_;
  Phases phases_;
};

}  // namespace fa::kernels::tcgen05
