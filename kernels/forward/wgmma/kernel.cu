// Attention in f16 or bf16 on wgmma, for one SM (FA_SM), element type (FA_DTYPE) and head dimension (FA_DIM).
#include "common/build.cuh"
#include "forward/wgmma/consumer.cuh"
#include "forward/wgmma/producer.cuh"

namespace fa::kernels::wgmma {

template <Entry E>
using BlockOf = Block<Dtype::FA_DTYPE, FA_DIM, E>;

template <class B>
__device__ __forceinline__ void forward(const Params &p, const TensorMaps &maps, uint32_t *tickets) {
  extern __shared__ __align__(1024) char memory[];  // of SWIZZLE_128B's period
  const SharedMemory<B> shared(memory);
  if (threadIdx.x == 0) shared.make_barriers();
  if (threadIdx.x < 32) shared.state->fixup_bitmap.clear();
  if (rows_of_work<B>(p) < B::rows) shared.clear_queries();
  __syncthreads();
  griddepcontrol_wait();               // before the first read: the kernel before may write the lengths of sequences, too
  griddepcontrol_launch_dependents();  // only now, as combine reads them before it waits
  // By a shuffle, so that the compiler knows that it is uniform in a warp.
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    setmaxnreg_dec<B::shape.producer_registers>();
    if (threadIdx.x < 32) Producer<B>(p, maps, tickets, shared).run();
  } else {
    setmaxnreg_inc<B::shape.consumer_registers>();
    Consumer<B>(p, maps, shared, warpgroup - 1).run();
  }
}

extern "C" __global__ void __launch_bounds__(BlockOf<Entry::plain>::threads, 1)
    fa_forward_plain(const __grid_constant__ Params p, const __grid_constant__ TensorMaps maps, uint32_t *tickets) {
  forward<BlockOf<Entry::plain>>(p, maps, tickets);
}

#if FA_DIM == 192 || FA_DIM == 576
extern "C" __global__ void __launch_bounds__(BlockOf<Entry::narrow>::threads, 1)
    fa_forward_narrow(const __grid_constant__ Params p, const __grid_constant__ TensorMaps maps, uint32_t *tickets) {
  forward<BlockOf<Entry::narrow>>(p, maps, tickets);
}
#endif
static_assert(has_narrow(FA_DIM) == (FA_DIM == 192 || FA_DIM == 576));

#if (FA_DIM & (FA_DIM - 1)) == 0
extern "C" __global__ void __launch_bounds__(BlockOf<Entry::score_mod>::threads, 1)
    fa_forward_score_mod(const __grid_constant__ Params p, const __grid_constant__ TensorMaps maps, uint32_t *tickets) {
  forward<BlockOf<Entry::score_mod>>(p, maps, tickets);
}
static_assert(has_score_mod_entry(FA_DIM));
#else
static_assert(!has_score_mod_entry(FA_DIM));
#endif

}  // namespace fa::kernels::wgmma
