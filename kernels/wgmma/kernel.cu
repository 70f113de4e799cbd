// Attention in f16 or bf16 on wgmma, for one SM (FA_SM), element type (FA_DTYPE) and head dimension (FA_DIM).
#include "common/build.cuh"
#include "wgmma/consumer.cuh"
#include "wgmma/producer.cuh"

namespace fa::kernels::wgmma {

using ThisBlock = Block<Dtype::FA_DTYPE, FA_DIM>;

extern "C" __global__ void __launch_bounds__(ThisBlock::threads, 1)
    fa_forward_plain(const __grid_constant__ Params p, const __grid_constant__ TensorMaps maps) {
  extern __shared__ __align__(1024) char memory[];  // of SWIZZLE_128B's period
  const SharedMemory<ThisBlock> shared(memory);
  if (threadIdx.x == 0) shared.make_barriers();
  if (threadIdx.x < 32) shared.state->verdicts[threadIdx.x] = 0;
  __syncthreads();
  // The same in all lanes, as the compiler is to know.
  const int warpgroup = __shfl_sync(~0u, threadIdx.x / 128, 0);
  if (warpgroup == 0) {
    setmaxnreg_dec<ThisBlock::shape.producer_registers>();
    if (threadIdx.x < 32) Producer<ThisBlock>(p, maps, shared).run();
  } else {
    setmaxnreg_inc<ThisBlock::shape.consumer_registers>();
    Consumer<ThisBlock>(p, shared, warpgroup - 1).run();
  }
}

}  // namespace fa::kernels::wgmma
