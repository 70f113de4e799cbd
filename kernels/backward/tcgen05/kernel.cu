// Gradients of attention in bf16 on tcgen05, for one SM (FA_SM), element type (FA_DTYPE) and head dimension (FA_DIM).
#include "backward/tcgen05/dq_reduce.cuh"
#include "backward/tcgen05/producer.cuh"
#include "backward/tcgen05/products.cuh"
#include "backward/tcgen05/scores.cuh"
#include "common/build.cuh"
#include "common/registers.cuh"

namespace fa::kernels::backward_tcgen05 {

using FusedBlock = Block<Dtype::FA_DTYPE, FA_DIM>;

template <class B>
__device__ __forceinline__ void work(int warp, const BackwardParams &p, const TensorMaps &maps,
                                     const SharedMemory<B> &shared) {
  const bool any = !shared.state->tiles.empty();
  if (warp < score_warp) {
    if constexpr (B::registers.reduce <= 128) setmaxnreg_dec<B::registers.reduce>();
    if constexpr (B::registers.reduce > 128) setmaxnreg_inc<B::registers.reduce>();
    DqStage<B>(shared).run();
  } else if (warp < product_warp) {
    setmaxnreg_inc<B::registers.scores>();
    Scores<B>(p, shared, warp / 4 - 1).run();
  } else {
    setmaxnreg_dec<B::registers.others>();
    if (any && warp == product_warp && elect_sync()) Products<B>(shared).run();
    if (any && warp == load_warp && elect_sync()) load_tiles(p, maps, shared);
    if (any && warp == stats_warp) Statistics<B>(p, shared).run();
    if (any && warp == add_warp && elect_sync()) DqAdd<B>(p, shared).run();
  }
  __syncwarp();
}

/// Uniform across the warp, and visibly so to the compiler.
__device__ inline int warp_of_block() {
  return __shfl_sync(~0u, mov_tid_x() / 32, 0);
}

extern "C" __global__ void __launch_bounds__(threads, 1)
    fa_backward_fused(const __grid_constant__ BackwardParams p, const __grid_constant__ TensorMaps maps) {
  using B = FusedBlock;
  extern __shared__ __align__(1024) char memory[];  // of SWIZZLE_128B's period
  const SharedMemory<B> shared(memory);
  const KeyWorkTile w = take_key_work_tile(p, B::rows, &shared.state->ticket);
  if (w.entry < 0) return;
  const Sequence s = sequence(p, w.entry);
  if (w.first >= s.keys) return;
  if (threadIdx.x == 0) {
    static_cast<KeyBlock &>(*shared.state) = key_block<B>(p, s, w);
    shared.state->softcap = Softcap::constants(p);
    shared.make_barriers();
  }
  if (warp_of_block() == product_warp) {
    tcgen05_alloc<tensor_columns>(shared_address(&shared.state->tensor_memory));
    tcgen05_relinquish_alloc_permit();
  }
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  work<B>(warp_of_block(), p, maps, shared);
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  if (warp_of_block() == product_warp) tcgen05_dealloc<tensor_columns>(shared.state->tensor_memory);
}

}  // namespace fa::kernels::backward_tcgen05
