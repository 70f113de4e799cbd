// Gradients of attention on wgmma, for one SM (FA_SM), element type (FA_DTYPE) and head dimension (FA_DIM).
#include "backward/wgmma/consumer.cuh"
#include "backward/wgmma/producer.cuh"
#include "common/build.cuh"

namespace fa::kernels::backward_wgmma {

using FusedBlock = Block<Dtype::FA_DTYPE, FA_DIM>;

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
  __syncthreads();
  // By a shuffle, so that the compiler knows that it is uniform in a warp.
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    setmaxnreg_dec<producer_registers>();
    if (shared.state->tiles.empty()) return;
    if (threadIdx.x == 0) load_tiles(p, maps, shared);
    if (threadIdx.x == 32) add_dq(p, shared);
  } else {
    setmaxnreg_inc<consumer_registers>();
    Consumer<B>(p, shared, warpgroup - 1).run();
  }
}

}  // namespace fa::kernels::backward_wgmma
