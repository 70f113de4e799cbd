// Attention in f32 by scalar instructions, for calls that the tensor-core kernels do not support: f32, mixed types,
// bf16 before SM 80, more than 512 columns of values. Tensors of any type and stride are converted on their way into
// shared memory.
#include "common/build.cuh"
#include "forward/simt/forward.cuh"

// Two blocks an SM leave a thread 255 registers; by itself ptxas takes 128 on some targets and spills.
extern "C" __global__ void __launch_bounds__(fa::kernels::simt::threads, 2)
    fa_forward_split(const __grid_constant__ fa::kernels::Params params) {
  extern __shared__ float shared[];
  fa::kernels::simt::forward<FA_DIM>(params, shared);
}
