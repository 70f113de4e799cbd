// Attention over quantised keys and values in f32 by scalar instructions: every format, scale, zero and type of q, and
// values of another type than keys. The loop is that of simt, whose rows in shared memory are f32 whatever they are
// read from.
#include "common/build.cuh"
#include "forward/simt_quantised/forward.cuh"

// The bounds are simt's.
extern "C" __global__ void __launch_bounds__(fa::kernels::simt::threads, 2)
    fa_forward_split(const __grid_constant__ fa::kernels::QuantisedParams params) {
  extern __shared__ float shared[];
  fa::kernels::simt_quantised::forward<FA_DIM>(params, shared);
}
