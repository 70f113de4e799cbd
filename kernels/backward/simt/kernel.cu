// Gradients in f32 by scalar instructions, for calls that the tensor-core kernels do not support, and dbias of every
// call. Tensors of any type and stride are converted on their way into shared memory.
#include "backward/simt/bias.cuh"
#include "backward/simt/keys.cuh"
#include "backward/simt/queries.cuh"
#include "common/build.cuh"

namespace fa::kernels::backward_simt {

extern "C" __global__ void __launch_bounds__(threads, 2) fa_backward_dkv(const __grid_constant__ BackwardParams p) {
  extern __shared__ float shared[];
  keys_of_block(p, shared);
}

extern "C" __global__ void __launch_bounds__(threads, 2) fa_backward_dq(const __grid_constant__ BackwardParams p) {
  extern __shared__ float shared[];
  queries_of_block(p, shared);
}

extern "C" __global__ void __launch_bounds__(threads, 2) fa_backward_dbias(const __grid_constant__ BackwardParams p) {
  extern __shared__ float shared[];
  bias_of_block(p, shared);
}

}  // namespace fa::kernels::backward_simt
