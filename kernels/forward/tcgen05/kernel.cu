// Attention in f16 or bf16 on tcgen05, for one SM (FA_SM), element type (FA_DTYPE) and head dimension (FA_DIM).
#include "common/build.cuh"
#include "common/registers.cuh"
#include "forward/tcgen05/correction.cuh"
#include "forward/tcgen05/producer.cuh"
#include "forward/tcgen05/products.cuh"
#include "forward/tcgen05/softmax.cuh"

namespace fa::kernels::tcgen05 {

template <Entry E>
using BlockOf = Block<Dtype::FA_DTYPE, FA_DIM, E>;

template <class B>
__device__ __forceinline__ void work(int warp, const Params &p, const TensorMaps &maps, const SharedMemory<B> &shared) {
  if (warp < B::correction_warps) {
    setmaxnreg_inc<B::shape.softmax_registers>();
    Softmax<B>(p, shared, warp / 4).run();
  } else if (warp < B::product_warp) {
    setmaxnreg_dec<B::shape.correction_registers>();
    Correction<B>(p, shared).run();
  } else {
    setmaxnreg_dec<B::shape.other_registers>();
    if (warp == B::product_warp && elect_sync()) Products<B>(p, shared).run();
    if (warp == B::load_warp) Producer<B>(p, maps, shared).run();
  }
  __syncwarp();
}

/// Uniform across the warp, and visibly so to the compiler. Recomputed by each call, it occupies no register in
/// between.
__device__ inline int warp_of_block() {
  return __shfl_sync(~0u, mov_tid_x() / 32, 0);
}

template <class B>
__device__ __forceinline__ void forward(const Params &p, const TensorMaps &maps) {
  extern __shared__ __align__(1024) char memory[];  // of SWIZZLE_128B's period
  const SharedMemory<B> shared(memory);
  const int warp = warp_of_block();
  if (p.schedule.tile_rows < B::rows) shared.clear_queries();
  if (threadIdx.x == 0) shared.make_barriers();
  if (warp == B::load_warp) shared.state->fixup_bitmap.clear();
  if (warp == B::product_warp) {
    tcgen05_alloc<tensor_columns>(shared_address(&shared.state->tensor_memory));
    tcgen05_relinquish_alloc_permit();
  }
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  // Only now: a kernel of the caller's that depends on this one might have taken the tensor memory.
  if (p.schedule.num_splits > 1) griddepcontrol_launch_dependents();
  tcgen05_fence_after_thread_sync();
  work<B>(warp, p, maps, shared);
  tcgen05_fence_before_thread_sync();
  __syncthreads();
  tcgen05_fence_after_thread_sync();
  if (warp_of_block() == B::product_warp) tcgen05_dealloc<tensor_columns>(shared.state->tensor_memory);
}

extern "C" __global__ void __launch_bounds__(BlockOf<Entry::plain>::threads, 1)
    fa_forward_plain(const __grid_constant__ Params p, const __grid_constant__ TensorMaps maps) {
  forward<BlockOf<Entry::plain>>(p, maps);
}

#if FA_DIM == 192
extern "C" __global__ void __launch_bounds__(BlockOf<Entry::narrow>::threads, 1)
    fa_forward_narrow(const __grid_constant__ Params p, const __grid_constant__ TensorMaps maps) {
  forward<BlockOf<Entry::narrow>>(p, maps);
}
#endif
static_assert(has_narrow(FA_DIM) == (FA_DIM == 192));

#if (FA_DIM & (FA_DIM - 1)) == 0
extern "C" __global__ void __launch_bounds__(BlockOf<Entry::plain>::threads, 1)
    fa_forward_score_mod(const __grid_constant__ Params p, const __grid_constant__ TensorMaps maps) {
  forward<BlockOf<Entry::score_mod>>(p, maps);
}
static_assert(has_score_mod_entry(FA_DIM));
#else
static_assert(!has_score_mod_entry(FA_DIM));
#endif

}  // namespace fa::kernels::tcgen05
